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
    """What an example writes goes there; what a document imports may be beside it."""
    path = request.node.path
    if path.suffix == ".md" or "src" in path.relative_to(request.config.rootpath).parts:
        monkeypatch.chdir(tmp_path)
    if path.suffix == ".md":
        monkeypatch.syspath_prepend(path.parent)
