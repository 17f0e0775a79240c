// What is going on, what keeps the gap open, what is assumed, what was declared: each follows a
// view, and changes only what is different.

import { cell, find, make, named, Rows, say, show, textOf } from "./dom.js";
import { amount, count, moment, percent, plural, span, track } from "./words.js";
import { pathOf } from "./service.js";

/** Episodes, decisions, outcomes, policy and planner, in numbers. */
export function showNow({ now, status: n, report, declaration }, last) {
  say(find("now-episodes"), `${count(n.begun)} begun, ${count(n.over)} over`);
  say(find("now-outcomes"), `${count(n.outcomes)} known, of ${plural(n.decisions, "decision")}`);
  say(find("now-states"), count(n.states));
  const waiting = find("now-waiting"), policy = find("now-policy");
  if (waiting.childNodes.length === 0) {
    waiting.append(make("span"), make("span"), make("time"));
    policy.append(make("span"), make("time"), make("span"));
  }
  const [open, since, oldest] = waiting.children;
  say(open, plural(n.waiting, "open decision"));
  say(since, n.oldest === null ? "" : ", the oldest for ");
  show(oldest, n.oldest !== null);
  if (n.oldest !== null) track(oldest, now - n.oldest);
  const [number, made, from] = policy.children;
  say(number, n.policy ? `number ${count(n.policy)}, `
    : "none yet: the first action is taken in every state");
  show(made, n.age !== null);
  if (n.age !== null) track(made, now - n.age);
  say(from, n.policy ? ` old, from ${plural(n.made_from, "episode")}` : "");
  say(find("now-lost"), n.lost ? `${plural(n.lost, "outcome")} will never be known` : "none");
  const late = n.late ? `${plural(n.late, "outcome")} came too late` : "no outcome came too late";
  const refused = n.faults - n.late;
  say(find("now-late"), refused ? `${late}; ${plural(refused, "other call")} refused` : late);
  say(find("now-planner"), n.error ? `failed, and tries again: ${n.error}` : planning(n, last));
  const silent = n.lost && declaration.on_timeout === "lost";
  say(find("losses"), costOfLosses(report?.losses, silent));
}

/** What the planner does; it plans again after 2% more data, and is idle until then. */
function planning(n, last) {
  if (n.planner !== null) return "running";
  if (last === undefined) {
    return n.outcomes ? "not running yet: the first plan may take a minute" : "nothing to plan yet";
  }
  const planned = last.episodes + last.outcomes;
  const fresh = n.begun + n.outcomes + n.lost - planned;
  if (fresh < Math.max(1, 0.02 * planned)) return "idle: plans again after 2% more data";
  return `none is running: ${plural(fresh, "event")} not planned for`;
}

/** The cost of open and missing outcomes, in a few sentences. */
function costOfLosses(losses, silent) {
  if (!losses || losses.gap_if_random === null) return "";
  const { gap, gap_if_random: better, waiting } = losses;
  const cost = gap - better > 0.005 * gap
    ? `Open and missing outcomes account for ${amount(gap - better)} of the gap, which would be `
      + `${amount(better)} if they were missing at random; that is not assumed.`
    : "Open and missing outcomes account for almost none of the gap.";
  const behind = `Not counted yet: ${plural(waiting, "decision")}, open or taken after an open one `
    + "in the same state with the same action.";
  const meaning = "If a timeout has a meaning, declare it (on_timeout): then it is an outcome, and "
    + "no outcome is missing.";
  return [cost, ...(waiting ? [behind] : []), ...(silent ? [meaning] : [])].join(" ");
}

const missing = new Rows(
  find("missing-rows"),
  (x) => JSON.stringify([x.segment, x.state, x.action]),
  (x) => {
    const start = x.state === null;
    const share = [make("span", { class: "n" }), make("span", { class: "bar" }, make("span"))];
    return make(
      "tr", {},
      make("th", { scope: "row" }, start ? "where episodes start" : named(x.state)),
      cell(start ? "–" : named(x.action)), cell(count(x.segment + 1), "n"), cell("", "n"),
      make("td", {}, ...share),
    );
  },
  (row, x) => {
    const [, , segment, visits, share] = row.children;
    show(segment, missing.segmented);
    say(visits, count(x.visits));
    say(share.firstChild, percent(x.share));
    share.lastChild.firstChild.style.width = `${100 * Math.min(1, x.share)}%`;
  },
);

/** The pairs that are known too little, with their shares. */
export function showMissing({ report }) {
  const pairs = report?.missing ?? [];
  missing.segmented = pairs.some((x) => x.segment > 0);
  show(find("missing-segment"), missing.segmented);
  missing.follow(pairs);
  show(find("missing"), pairs.length > 0);
  const shown = pairs.reduce((sum, x) => sum + x.share, 0);
  say(find("missing-text"), !report ? "Nothing is known yet: this comes after the first plans."
    : !pairs.length ? "Nothing stands out."
      : `After ${plural(report.episodes, "episode")}, ${percent(shown)} of the uncertainty `
        + `is in ${plural(pairs.length, "case")}. More visits there narrow the gap most.`);
}

const tested = new Rows(
  find("tested-rows"),
  (x) => x.name,
  (x) => {
    const name = make("th", { scope: "row" }, x.assumption);
    return make("tr", {}, name, cell(), cell("", "n"), cell("", "n"));
  },
  (row, x) => {
    const [, result, evidence, threshold] = row.children;
    row.classList.toggle("bad", x.refuted);
    say(result, x.refuted ? "✗ refuted" : "✓ no findings");
    say(evidence, x.e_value < 0.01 ? "below 0.01" : amount(x.e_value));
    say(threshold, amount(x.threshold));
  },
);

let reported = null; // the number of the report that is shown

/** What is assumed and tested; what was found comes first. */
export function showAssumed({ report }) {
  if (reported === (report?.number ?? 0)) return;
  reported = report?.number ?? 0;
  show(find("assumed"), Boolean(report));
  if (!report) {
    say(find("assumed-text"), "Nothing is tested yet: this comes after the first plans.");
    return;
  }
  const { assumed, tested: tests, findings, contradiction } = report;
  const refuted = tests.filter((x) => x.refuted).length;
  const wrong = Boolean(contradiction) || findings.length > 0 || refuted > 0;
  say(find("assumed-text"), wrong
    ? "The outcomes contradict an assumption, so the policy is not certified:"
    : tests.length ? "No assumption is contradicted." : "");
  find("findings").replaceChildren(
    ...[contradiction].filter(Boolean).map((x) => make("p", { class: "note" }, sentence(x))),
    ...findings.map((x) => make(
      "div", { class: "note" },
      make("p", {}, make("strong", {}, "Refuted: "), sentence(x.assumption)),
      make("p", {}, sentence(`${x.where}: ${x.effect}`)),
      make("p", {}, sentence(x.meaning)),
      make("p", {}, "What to do: ", sentence(x.remedy, false)),
      make("p", {}, strength(x.e_value), ` Strongest after ${plural(x.episodes, "episode")}.`),
    )),
  );
  find("assumed-list").replaceChildren(...assumed.map((x) => make("li", {}, make("bdi", {}, x))));
  tested.follow(tests);
  show(find("tested"), tests.length > 0);
}

const strength = (e) =>
  `If it were true, evidence this strong would have a probability of 1 in ${amount(e)} at most.`;

/** A text as a sentence of its own; it may hold names. */
function sentence(text, upper = true) {
  const start = upper ? text.charAt(0).toUpperCase() : text.charAt(0);
  return make("bdi", {}, `${start}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`);
}

const FILES = [
  ["log.jsonl", "Log of all episodes", "jsonl"],
  ["certificate", "Certificate", "json"],
  ["policy", "Policy", "json"],
  ["audit", "Assumption checks", "json"],
];

/** What does not change: downloads and the declaration. */
export function showAbout({ task, version, declaration: d }) {
  find("downloads").replaceChildren(...FILES.map(([path, name, kind]) => {
    const file = `${task}-${path.replace(".jsonl", "")}.${kind}`;
    const link = make("a", { href: pathOf(task, path), download: file }, name);
    return make("li", {}, link, ` (${kind.toUpperCase()})`);
  }));
  const [low, high] = d.rewards;
  const silence = d.on_timeout === "lost" || d.on_timeout === null ? "its outcome counts as missing"
    : `it counts as state ${textOf(d.on_timeout[0])} with reward ${amount(d.on_timeout[1])}`;
  const sure = `wrong with a probability of ${amount(d.delta)} at most`;
  const most = d.max_return === null ? "no limit declared" : `${amount(d.max_return)} at most`;
  const later = d.segments.map((t) => `a new one begins at step ${t}`).join(", ");
  const wait = d.timeout === null ? "a decision waits forever"
    : `after ${span(d.timeout)} ${silence}`;
  const facts = [
    ["Actions", textOf(d.actions).slice(1, -1)],
    ["Steps of an episode", `${count(d.horizon)} at most`],
    ["Wanted", `a gap of ${amount(d.epsilon)} or less, ${sure}`],
    ["Reward of a step", `from ${amount(low)} to ${amount(high)}`],
    ["Reward of an episode", most],
    ["States", d.states === null ? "unknown in advance" : "declared"],
    ["Segments", later || "all steps are the same"],
    ["Without an outcome", wait],
    ["Version", `ucfh ${version}`],
  ];
  find("declared").replaceChildren(
    ...facts.flatMap(([term, text]) => [
      make("dt", {}, term), make("dd", {}, make("bdi", {}, text)),
    ]),
  );
}

/** The plans as a table, the newest first; made when it is opened, then one row a plan. */
export class PlanTable {
  constructor(details, body) {
    Object.assign(this, { details, body, last: 0, plans: [] });
    details.addEventListener("toggle", () => this.add());
  }

  follow(plans) {
    if (plans.length && this.last > plans[plans.length - 1].number) this.clear();
    this.plans = plans;
    this.add();
  }

  clear() {
    this.body.replaceChildren();
    this.last = 0;
  }

  add() {
    if (!this.details.open) return;
    const fresh = this.plans.filter((x) => x.number > this.last);
    if (!fresh.length) return;
    this.last = fresh[fresh.length - 1].number;
    this.body.prepend(...fresh.reverse().map((x) => make(
      "tr", {}, make("th", { scope: "row", class: "n" }, count(x.number)), cell(moment(x.made)),
      cell(count(x.episodes), "n"), cell(count(x.outcomes), "n"), cell(amount(x.lower), "n"),
      cell(amount(x.upper), "n"), cell(amount(x.gap), "n"),
    )));
  }
}
