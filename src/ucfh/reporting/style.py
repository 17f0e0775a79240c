"""The style sheet of the report, by day, by night and on paper."""

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
a { color: var(--link); text-underline-offset: 0.18em; text-decoration-thickness: 1px; }
section { margin-top: 3.5rem; padding-top: 2.5rem; border-top: 1px solid var(--rule); }
figure { margin: 2rem 0; }
figcaption, caption { font: 0.9rem/1.45 var(--sans); color: var(--soft); text-align: left;
  text-wrap: pretty; }
figcaption { margin-top: 0.6rem; }
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
:root {
  color-scheme: light dark;
  --paper: #fff; --faint: #eceeef; --warn: #fff7e8; --warn-ink: #6b2f00; --warn-edge: #b45309;
  --bar: #0b5a8a; --maybe: #0b5a8a66; --track: #eceeef;
}
body { background: var(--paper); }
.over { margin: 0 0 0.5rem; font: 0.9rem/1.4 var(--sans); color: var(--soft); }
h1 { text-wrap: pretty; }
.verdict { display: inline-block; margin: 0 0 0.75rem; padding: 0.15rem 0.7rem;
  border: 2px solid currentcolor; border-radius: 0.3rem; font: 600 0.95rem/1.5 var(--sans); }
.verdict.yes { color: var(--bar); }
.verdict.no { border-style: dashed; color: var(--warn-edge); }
section { margin-top: 2.5rem; padding-top: 1.75rem; }
h2 { margin-bottom: 0.8rem; }
.note { margin: 1.25rem 0; padding: 0.7rem 0.9rem; border-left: 4px solid var(--warn-edge);
  background: var(--warn); color: var(--warn-ink); font: 0.95rem/1.45 var(--sans); }
.note p { margin: 0 0 0.4em; }
.note p:last-child { margin: 0; }
ul { padding-left: 1.3em; }
li { margin: 0 0 0.45em; }
.small, li small { font: 0.9rem/1.45 var(--sans); color: var(--soft); }
li small { display: block; }
.bars { margin: 1.25rem 0; font: 0.95rem/1.4 var(--sans); }
.bars p { margin: 0.9rem 0 0.25rem; }
.bars svg { display: block; width: 100%; overflow: visible; }
.bars .track { fill: var(--track); }
.bars .sure { fill: var(--bar); }
.bars .maybe { stroke: var(--bar); stroke-width: 1.5; }
.bars .mean { fill: var(--paper); stroke: var(--ink); stroke-width: 2; }
.bars text { fill: var(--soft); font: 0.8rem var(--sans); }
.bars .tick { stroke: var(--soft); stroke-width: 1; }
.key { grid-template-columns: max-content minmax(0, 1fr); }
.key dt { color: var(--ink); }
table { border-bottom-color: var(--ink); }
th:first-child { background: var(--paper); }
tbody tr + tr > * { border-top-color: var(--faint); }
.table {
  background:
    linear-gradient(to left, var(--paper) 1rem, #0000) 100% 0 / 2rem 100% local no-repeat,
    linear-gradient(to left, #8886, #0000) 100% 0 / 0.6rem 100% no-repeat;
}
.plan { border-collapse: separate; }
.plan th, .plan td { padding: 0.3rem 0.55rem; vertical-align: top; }
.plan td { border-left: 2px dotted var(--rule); min-width: 3.2rem; }
.plan td.settled { border-left: 5px solid var(--bar); }
.plan td.close { border-left: 5px double var(--bar); }
.plan td.open { border-left: 3px dashed var(--warn-edge); background: var(--warn); }
.plan td.unseen { color: var(--soft); }
.plan td b { font-weight: 600; }
.plan td.unseen b { font-weight: 400; }
.plan td span.how { display: block; color: var(--soft); font-size: 0.8rem; white-space: nowrap; }
.plan td.open span.how { color: var(--warn-ink); }
.plan tbody th { min-width: 6.5rem; max-width: 12rem; overflow-wrap: anywhere; }
.plan thead tr + tr th { position: static; padding-left: 0.55rem; }
details { margin: 1.5rem 0; }
summary { cursor: pointer; font: 600 0.95rem/1.5 var(--sans); color: var(--link); }
summary:focus-visible { outline: 2px solid var(--link); outline-offset: 3px; }
@media screen and (max-width: 36rem) {
  .key { display: grid; gap: 0.35rem 0.8rem; }
  .key dd { margin: 0; }
  .plan th, .plan td { padding: 0.3rem 0.4rem; }
  .plan td span.how { white-space: normal; }
  .plan tbody th { min-width: 4.5rem; max-width: 7.5rem; }
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16181a; --ink: #e8e6e3; --soft: #a9aeb3; --rule: #3b4045; --link: #7cc0ee;
    --faint: #2a2e32; --warn: #33260f; --warn-ink: #f3cf94; --warn-edge: #e0a252;
    --bar: #6db5e6; --maybe: #6db5e666; --track: #2a2e32;
  }
}
@media print {
  :root {
    color-scheme: light; --paper: #fff; --ink: #1d1f21; --soft: #565b60; --rule: #d5d8db;
    --faint: #eceeef; --warn: #fff; --warn-ink: #1d1f21; --warn-edge: #b45309; --bar: #0b5a8a;
    --track: #eceeef; --link: #0b5a8a;
  }
  section { margin-top: 1.2rem; padding-top: 0.9rem; break-inside: auto; }
  .note, .bars, li { break-inside: avoid; }
  .bars, .small, li small, .over { font-size: 8.5pt; }
  .plan { font-size: 7.5pt; }
  .plan td { min-width: 0; overflow-wrap: anywhere; hyphens: auto; }
  .plan tbody th { min-width: 18mm; }
  .plan th, .plan td { padding: 0.15rem 0.25rem; }
  .plan td span.how { font-size: 6.5pt; white-space: normal; }
  .table.long { break-inside: auto; }
  thead { display: table-header-group; }
  caption { break-after: avoid; }
  details::details-content { content-visibility: visible; height: auto; }
  summary { list-style: none; color: inherit; }
}
"""
