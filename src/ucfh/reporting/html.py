"""One HTML file that needs no other: no script, nothing fetched, so it can be sent and printed."""

from __future__ import annotations

from html import escape

STYLE = """
:root {
  color-scheme: light;
  --ink: #1d1f21; --soft: #565b60; --rule: #d5d8db; --link: #0b5a8a;
  --serif: Charter, "Bitstream Charter", "Iowan Old Style", "Sitka Text", Cambria, "Noto Serif",
    serif;
  --sans: "Helvetica Neue", "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
  --edge: 1.25rem;
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 3.5rem var(--edge) 5rem; max-width: calc(34rem + 2 * var(--edge));
  background: #fff; color: var(--ink);
  font: 1.125rem/1.55 var(--serif); overflow-wrap: break-word;
}
h1, h2, h3 { line-height: 1.2; font-weight: 600; text-wrap: balance; break-after: avoid; }
h1 { margin: 0 0 1.25rem; font-size: 2.1rem; letter-spacing: -0.01em; }
h2 { margin: 0 0 1.25rem; font-size: 1.5rem; }
h3 { margin: 1.75rem 0 0.4rem; font: 600 0.9rem/1.4 var(--sans); color: var(--soft); }
p { margin: 0 0 0.8em; text-wrap: pretty; }
.lead { font-size: 1.2rem; line-height: 1.5; }
a { color: var(--link); text-underline-offset: 0.18em; text-decoration-thickness: 1px; }
code { font: 0.85em/1.4 ui-monospace, "Cascadia Mono", Menlo, Consolas, "Liberation Mono",
  monospace; white-space: nowrap; }
sup { font-size: 0.72em; line-height: 0; }
section { margin-top: 3.5rem; padding-top: 2.5rem; border-top: 1px solid var(--rule); }
figure { margin: 2rem 0; }
img { display: block; width: 100%; height: auto; }
figcaption, caption { font: 0.9rem/1.45 var(--sans); color: var(--soft); text-align: left;
  text-wrap: pretty; }
figcaption { margin-top: 0.6rem; }
figcaption b, caption b { color: var(--ink); font-weight: 600; }
.table {
  margin: 2rem 0; overflow-x: auto;
  /* a shadow shows that there is more; at the end, the layer that scrolls covers it */
  background:
    linear-gradient(to left, #fff 1rem, #fff0) 100% 0 / 2rem 100% local no-repeat,
    linear-gradient(to left, #0003, #0000) 100% 0 / 0.6rem 100% no-repeat;
}
.table:focus-visible { outline: 2px solid var(--link); outline-offset: 4px; }
table {
  margin: 0 auto; min-width: min(34rem, 100%); border-collapse: separate; border-spacing: 0;
  border-bottom: 1.5px solid var(--ink);
  font: 0.9rem/1.4 var(--sans); font-variant-numeric: lining-nums tabular-nums;
}
caption { position: sticky; left: 0; padding-bottom: 0.6rem;
  max-width: min(34rem, 100vw - 2 * var(--edge) - 1.2rem); }
th, td { padding: 0.32rem 0.7rem; text-align: left; vertical-align: baseline; font-weight: 400; }
th:first-child { position: sticky; left: 0; max-width: 17rem; padding-left: 0.1rem;
  background: #fff; }
th:last-child, td:last-child { padding-right: 0.1rem; }
thead th { font-weight: 600; vertical-align: bottom; border-top: 1.5px solid var(--ink);
  border-bottom: 1px solid var(--ink); }
tbody tr + tr > * { border-top: 1px solid #eceeef; }
th.n, td.n { text-align: right; }
td.n { white-space: nowrap; }
dl { display: grid; grid-template-columns: fit-content(11rem) minmax(0, 1fr);
  gap: 0.35rem 1.25rem; margin: 1rem 0; font: 0.9rem/1.45 var(--sans); }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-line; }
@media screen and (min-width: 36.01rem) {
  .table { margin-inline: calc(50% - min(30rem, 50vw - var(--edge))); }
}
@media screen and (max-width: 36rem) {
  body { padding-top: 2rem; font-size: 1.0625rem; }
  h1 { font-size: 1.75rem; }
  .lead { font-size: 1.1rem; }
  figure img { --out: calc(var(--edge) - 0.25rem); width: calc(100% + 2 * var(--out));
    margin: 0 calc(-1 * var(--out)); }
  table { font-size: 0.85rem; }
  th, td { padding: 0.32rem 0.5rem; }
  th:first-child { max-width: 8.5rem; }
  dl { display: block; }
  dd { margin-bottom: 0.6rem; }
}
@page { margin: 20mm 22mm 22mm; @bottom-center { content: counter(page); font: 9pt serif; } }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; line-height: 1.4; }
  h1 { font-size: 20pt; }
  h2 { font-size: 14pt; margin-bottom: 0.6rem; }
  h3, figcaption, table, caption, dl { font-size: 8.5pt; }
  h3 { margin-top: 1rem; }
  .lead { font-size: 11pt; }
  a { color: inherit; text-decoration: none; }
  p { orphans: 3; widows: 3; }
  section { margin-top: 1.6rem; padding-top: 1.2rem; }
  figure, .table, tr, dl { break-inside: avoid; }
  figure { width: 100mm; margin: 1.1rem auto; }
  .table { margin: 1.1rem 0; overflow: visible; background: none; }
  table { min-width: 100%; }
  caption { max-width: none; }
  caption, th:first-child { position: static; background: none; }
  th, td { padding: 0.2rem 0.45rem; }
  td.n { white-space: normal; }
}
"""


def document(title: str, style: str, body: str) -> str:
    """A page that needs no other file; ``body`` is HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # without this, a browser asks the server for an icon that does not exist
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{body}</body>\n</html>\n"
    )
