"""How the site is built: `make docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.domains.python import PyObject

import ucfh

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "ucfh"
author = "The ucfh developers"
copyright = author
version = release = re.findall(
    r'^__version__ = "(.*)"', (HERE.parent / "src/ucfh/__init__.py").read_text(), re.MULTILINE
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
autoclass_content = "class"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes (besides those of `Agent`)", "Attributes")]
python_maximum_signature_line_length = 80
napoleon_use_ivar = True
napoleon_attr_annotations = False  # the signature has the types
# A public name that is linked must have its place; docstrings may also name what is within.
nitpick_ignore_regex = [("py:.*", rf"(?!ucfh\.({'|'.join(ucfh.__all__)})$).*")]

# `states` in a docstring is an argument; that two classes have such an attribute does not matter
suppress_warnings = ["ref.python"]

smartquotes_action = "D"  # dashes; eps' is no quotation

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


def repair(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Let a docstring be read as it was meant, where reST or napoleon reads something else."""
    for kind, text in ((":rtype: ", ":returns: "), (":type: ", "")):
        # "what it is: more of it" has no type
        types = [line for line in lines if line.startswith(kind)]
        if types and (what == "property" or text):
            lines.remove(types[0])
            at = next(i for i, line in enumerate(lines) if line.startswith(text))
            meant = f"{types[0].removeprefix(kind)}: {lines[at].removeprefix(text)}"
            lines[at] = text + meant
    for at, line in enumerate(lines):
        parts = line.split("``")
        # |x| is no substitution, and a line "H." no list
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        line = re.sub(r"(^\s*|: )([A-Za-z])\.( |$)", r"\1\2\.\3", "``".join(parts))
        # several attributes at once; a space would make the first a type
        lines[at] = re.sub(
            r"^:ivar ([\w, ]+):", lambda found: f":ivar {found[1].replace(', ', ',')}:", line
        )


def strip_code(app: Any, doctree: nodes.document) -> None:  # noqa: ARG001
    """Do not show the empty line that ends an example, which doctest needs."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip()
        block[:] = [nodes.Text(block.rawsource)]


def shorten(*arguments: Any) -> tuple[str | None, str | None]:
    """Show NDArray[float64] in a signature, not what it stands for."""
    long = r"[~\w.]*ndarray\[tuple\[[~\w.]*Any, \.\.\.\], [~\w.]*dtype\[[~\w.]*?(\w+)\]\]"
    given, returned = arguments[-2:]
    return given and re.sub(long, r"NDArray[\1]", given), (
        returned and re.sub(long, r"NDArray[\1]", returned)
    )


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-signature", shorten)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("doctree-read", strip_code)
    app.connect("autodoc-process-docstring", repair)
    for name in ("csv", "tra", "trew"):  # files that are shown as they are
        app.add_lexer(name, TextLexer)
