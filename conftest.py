"""How tests run: the same examples in every run, and each document in an empty folder of its own.

``pytest --hypothesis-profile=wander`` looks for new examples.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("wander", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fixed")

# the code of the site needs Sphinx, which tests do not
collect_ignore_glob = ["docs/conf.py", "docs/_ext/*", "docs/_build/*"]


@pytest.fixture(autouse=True)
def _own_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a document writes goes there; what it imports may be beside it."""
    if request.node.path.suffix == ".md":
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(request.node.path.parent)
