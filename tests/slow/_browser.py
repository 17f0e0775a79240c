"""Pages in a real browser: what it measures, and what it complains of."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

# tells the page around it what it measured; windows themselves may be no narrower than 500 pixels
PROBE = """<script>
addEventListener("load", () => parent.postMessage({
  width: innerWidth,
  room: document.documentElement.clientWidth,
  needed: document.documentElement.scrollWidth,
  images: [...document.images].map(image => image.naturalWidth > 0 && image.width > 0),
  tables: [...document.querySelectorAll(".table")].map(x => [x.clientWidth, x.scrollWidth]),
  // what sticks out of the window, but for what scrolls in a frame of its own
  outside: [...document.querySelectorAll("body *")].filter(x => !x.closest(".table table, .sr") &&
    x.getBoundingClientRect().right > innerWidth + 1).map(x => x.tagName),
  folded: [...document.querySelectorAll("details table")].filter(x => x.checkVisibility
    && !x.checkVisibility({contentVisibilityAuto: true})).map(x => x.caption.textContent),
  background: getComputedStyle(document.body).backgroundColor,
}, "*"));
</script>"""

FRAME = """<!DOCTYPE html><html lang="en"><link rel="icon" href="data:,"><title>frame</title><body>
<script>addEventListener("message", event => {
  document.body.dataset.measured = btoa(JSON.stringify(event.data));
});</script>
<iframe src="page.html" style="width: %dpx; height: 800px; border: 0"></iframe></body></html>"""


def measure(folder: Path, html: str, width: int, *more: str) -> tuple[dict[str, Any], list[str]]:
    """What a browser makes of a page of some width in pixels, and what it complains of.

    ``more``: options of the browser.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.fail("no Chromium to open the page in: install Debian's chromium", pytrace=False)
    (folder / "page.html").write_text(html.replace("</head>", PROBE + "</head>"), encoding="utf-8")
    (folder / "frame.html").write_text(FRAME % width)
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--v=0",
        "--window-size=1400,900", "--virtual-time-budget=5000", "--dump-dom", *more,
    ]  # fmt: skip
    done = subprocess.run(
        [browser, *options, (folder / "frame.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = re.search('data-measured="([^"]+)"', done.stdout)
    assert found, f"the page measured nothing: {done.stdout[:500]}"
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(b64decode(found[1])), complaints
