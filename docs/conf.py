"""How the site is built: `make docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

import ucfh

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "ucfh"
author = "The ucfh developers"
copyright = author
version = release = re.findall(
    r'^version = "(.*)"', (HERE.parent / "pyproject.toml").read_text(), re.MULTILINE
)[0]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
    "pages",
    "rooms",
]
exclude_patterns = ["_build", "conftest.py"]

# Markdown
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# Mathematics without a script and without a network
html_math_renderer = "mathml"
math_numfig = False

# Reference
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autoclass_content = "class"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes (besides those of `Agent`)", "Attributes")]
python_maximum_signature_line_length = 80
napoleon_use_ivar = True
# A public name that is linked must have its place; docstrings may also name what is within.
nitpick_ignore_regex = [("py:.*", rf"(?!ucfh\.({'|'.join(ucfh.__all__)})$).*")]

# `states` in a docstring is an argument; that two classes have such an attribute does not matter
suppress_warnings = ["ref.python"]

# The look
html_theme = "furo"
html_title = f"ucfh {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["report.html"]
html_show_sphinx = False
html_copy_source = False
pygments_style = "friendly"

# `make links` follows what leads out of the site; it needs a network
linkcheck_anchors = False


def escape_bars(*arguments: Any) -> None:
    """Let |x| in a docstring be |x|, and no substitution."""
    lines: list[str] = arguments[-1]
    for at, line in enumerate(lines):
        parts = line.split("``")
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        lines[at] = "``".join(parts)


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", escape_bars)
    for name in ("csv", "tra", "trew"):  # files that are shown as they are
        app.add_lexer(name, TextLexer)
