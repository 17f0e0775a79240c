"""Settings of all tests: the same examples in every run, each document in an empty folder.

``pytest --hypothesis-profile=wander`` looks for new examples.
"""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("wander", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fixed")

# a background job of a script (`make test &`) ignores Ctrl-C, which some tests press
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the code of the site needs Sphinx, which tests do not
collect_ignore_glob = ["docs/conf.py", "docs/_ext/*", "docs/_build/*"]


@pytest.fixture(autouse=True)
def _own_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run examples in an empty folder; documents may import modules beside them."""
    path = request.node.path
    if path.suffix == ".md" or "src" in path.relative_to(request.config.rootpath).parts:
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
    if path.suffix == ".md":
        monkeypatch.syspath_prepend(path.parent)
