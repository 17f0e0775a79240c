"""Mathematics as MathML, made while the site is built: browsers show it without any script.

Readers fetch nothing, and the repository holds no third-party file.
`latex2mathml` reads the formulas; what it leaves wrong is repaired here:

- ``aligned`` and ``split``, which it does not know, and ``align``, whose lines it numbers itself;
- limits that belong under an operator (max, min, sup, arg max) in a displayed formula;
- names of functions, which it spaces like relations, or not at all, and other spaces and sizes;
- long formulas within a line, which may break after a relation, as a phone needs.

What it does not know at all is a warning, and so an error of ``make docs``.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

from docutils import nodes
from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

log = logging.getLogger(__name__)

SPACE = "http://www.w3.org/1998/Math/MathML"
LIMITS = {"max", "min", "sup", "inf", "lim", "limsup", "liminf", "argmax", "argmin"}
BIG = {"∑", "∏", "\N{N-ARY UNION}", "\N{N-ARY INTERSECTION}"}
RELATIONS = set("=<>≤≥∈→⇒⟹⟺≈≪≫≔⊆⊂,")
BREAKS_FROM = 14
"""Formulas of fewer characters stay on one line."""

THIN = "0.167em"
TIGHT = {"lspace": "0", "rspace": "0"}
WIDE = {"lspace": "0.278em", "rspace": "0.278em"}
BAR = {**TIGHT, "stretchy": "false"}
OPERATORS = {"/": TIGHT, "|": BAR, "\u2016": BAR, "\u2225": BAR}
"""Signs that would get too much space, or become too tall."""

LETTERS = {
    **dict.fromkeys("⌈⌉⌊⌋", BAR),
    **dict.fromkeys(("~", "⟺", "\N{REVERSE SOLIDUS OPERATOR}"), WIDE),
    ":": {"lspace": "0.11em", "rspace": "0.25em"},
}
"""Signs that it takes for letters, without any space."""
GAP = "\N{THIN SPACE}"


def _name(tag: str) -> str:
    return f"{{{SPACE}}}{tag}"


def _tag(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


def _prepared(latex: str) -> str:
    """The formula in words that `latex2mathml` knows."""
    latex = re.sub(r"\\(begin|end)\{(aligned|split|align)\}", r"\\\1{align*}", latex)
    latex = re.sub(
        r"\\operatorname\*\{([^{}]*)\}",
        lambda found: r"\operatorname{" + re.sub(r"\\[,;: ]|~", "", found[1]) + "}",
        latex,
    )
    # formulas within a text within a formula
    return re.sub(
        r"\\text\{([^{}$]*(?:\$[^$]*\$[^{}$]*)+)\}",
        lambda found: re.sub(r"\$([^$]*)\$", r"}\1\\text{", rf"\text{{{found[1]}}}"),
        latex,
    )


def _is_word(node: ET.Element) -> bool:
    return _tag(node) in ("mi", "mo") and bool(re.fullmatch(r"[A-Za-z]{2,}", node.text or ""))


def _takes_limits(node: ET.Element) -> bool:
    text = (node.text or "").replace(GAP, "")
    return _tag(node) == "mo" and (text in LIMITS or text in BIG)


def _repair(node: ET.Element) -> None:
    """Words as operators and their limits; signs that would be too wide or too tall."""
    for child in node:
        _repair(child)
    base = node[0] if len(node) else None
    if base is not None and _tag(node) in ("msub", "msup", "msubsup") and _takes_limits(base):
        node.tag = _name({"msub": "munder", "msup": "mover"}.get(_tag(node), "munderover"))
    if _is_word(node):
        limits = node.text in LIMITS
        node.tag = _name("mo" if limits else "mi")
        node.attrib.clear()
        if limits:
            node.attrib |= {"movablelimits": "true", "lspace": "0", "rspace": "0"}
            node.text = str(node.text).replace("arg", "arg" + GAP)
    if _tag(node) == "mi" and node.text in LETTERS:
        node.tag, node.attrib = _name("mo"), dict(LETTERS[node.text])
    elif _tag(node) == "mo" and node.text in OPERATORS:
        node.attrib = OPERATORS[node.text] | node.attrib
    elif _tag(node) == "mo" and node.text in ("∞", "∂", "∅", "∀", "∃", "∇"):
        node.tag = _name("mi")


def _is_function(node: ET.Element) -> bool:
    """A word such as log or max, with or without indices."""
    if len(node) and _tag(node).startswith(("msub", "msup", "munder", "mover")):
        return _is_function(node[0])
    text = (node.text or "").replace(GAP, "")
    return _tag(node) in ("mi", "mo") and bool(re.fullmatch(r"[A-Za-z]{2,}", text))


def _spaced(node: ET.Element) -> None:
    """Put a thin space between a function and its argument, unless that is in brackets."""
    for child in node:
        _spaced(child)
    if _tag(node) not in ("mrow", "mtd", "math", "msqrt"):
        return
    children = list(node)
    for at in range(len(children) - 1, 0, -1):
        before, after = children[at - 1], children[at]
        quiet = any(_tag(x) in ("mo", "mspace", "mtext") and not _is_function(x)
                    for x in (before, after))  # fmt: skip
        fenced = len(after) and _tag(after) == "mrow" and after[0].get("fence") == "true"
        if (_is_function(before) or _is_function(after)) and not quiet and not fenced:
            node.insert(at, ET.Element(_name("mspace"), {"width": THIN}))


def _tree(latex: str, display: str) -> ET.Element:
    text = convert(_prepared(latex), display=display)
    tree = ET.fromstring(text)
    unknown = {x.text for x in tree.iter() if "\\" in (x.text or "") or (x.text or "") == "&"}
    if unknown or 'linebreak="newline"' in text:
        raise ValueError(f"no MathML for {', '.join(map(str, unknown)) or 'the line break'}")
    _repair(tree)
    _spaced(tree)
    return tree


def _written(tree: ET.Element) -> str:
    ET.register_namespace("", SPACE)
    return ET.tostring(tree, encoding="unicode")


def _pieces(tree: ET.Element) -> list[ET.Element]:
    """An inline formula in pieces between which a line may break: after its relations."""
    row = tree[0] if len(tree) == 1 and _tag(tree[0]) == "mrow" else tree
    if len("".join(tree.itertext())) < BREAKS_FROM:
        return [tree]
    pieces: list[ET.Element] = []
    fresh: list[ET.Element] = []
    depth = 0
    for child in row:
        fresh.append(child)
        sign = child.text if _tag(child) == "mo" else None
        depth += (sign in ("(", "[", "{")) - (sign in (")", "]", "}"))
        if sign in RELATIONS and depth == 0 and child is not row[-1]:
            child.set("form", "infix" if sign != "," else "postfix")
            pieces.append(_math(fresh))
            fresh = []
    return [*pieces, _math(fresh)]


def _math(children: list[ET.Element]) -> ET.Element:
    tree = ET.Element(_name("math"), {"display": "inline"})
    row = ET.SubElement(tree, _name("mrow"))
    row.extend(children)
    return tree


def _converted(latex: str, display: str, node: Any) -> list[str]:
    """The formula; in pieces, if it is within a line."""
    try:
        tree = _tree(latex, display)
    except Exception as error:  # it raises whatever came up
        log.warning("formula %r: %s", latex, error, location=node)
        return [f"<code>{escape(latex)}</code>"]
    return [_written(x) for x in ([tree] if display == "block" else _pieces(tree))]


def hold_together(app: Sphinx, doctree: nodes.document) -> None:  # noqa: ARG001
    """Give formulas the brackets and commas beside them, from which no line break may part them."""
    for node in list(doctree.findall(nodes.math)):
        row, at = node.parent, node.parent.index(node)
        for name, place, pattern in (
            ("before", at - 1, r"[(\[]$"),
            ("after", at + 1, r"^[^\s\w]+"),
        ):
            if 0 <= place < len(row) and isinstance(row[place], nodes.Text):
                text = str(row[place])
                found = re.search(pattern, text)
                if found:
                    node[name] = found[0]
                    row[place] = nodes.Text(text[: found.start()] + text[found.end() :])


def visit_inline(self: Any, node: Any) -> None:
    """A formula within a line."""
    pieces = _converted(node.astext(), "inline", node)
    pieces[0] = escape(node.get("before", "")) + pieces[0]
    pieces[-1] += escape(node.get("after", ""))
    whole = "<wbr>".join(f'<span class="piece">{piece}</span>' for piece in pieces)
    self.body.append(f'<span class="math">{whole}</span>')
    raise SkipNode


def visit_block(self: Any, node: Any) -> None:
    """A displayed formula, and its number if it has one."""
    # furo puts a box around it, which has the id already
    boxed = "math-wrapper" in node.parent.get("classes", [])
    self.body.append('<div class="math">' if boxed else self.starttag(node, "div", CLASS="math"))
    self.body.append(f'<div class="formula">{_converted(node.astext(), "block", node)[0]}</div>')
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("doctree-read", hold_together)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
