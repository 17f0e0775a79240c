"""How an answer looks: what it has besides a report (`ucfh.reporting.html.STYLE`), and in the
dark."""

from ucfh.reporting.html import STYLE

ANSWER_STYLE = (
    STYLE
    + """
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
.sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
.bars { margin: 1.25rem 0; font: 0.95rem/1.4 var(--sans); }
.bars p { margin: 0.9rem 0 0.25rem; }
.bars svg { display: block; width: 100%; overflow: visible; }
.bars .track { fill: var(--track); }
.bars .sure { fill: var(--bar); }
.bars .maybe { stroke: var(--bar); stroke-width: 1.5; }
.bars .line { stroke: var(--bar); stroke-width: 2; }
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
)
