// Numbers and times as a person reads them.

import { say } from "./dom.js";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const clock = new Intl.DateTimeFormat([], { timeStyle: "medium" });
const day = new Intl.DateTimeFormat([], { dateStyle: "medium", timeStyle: "short" });
const RAISED = { "-": "⁻", ...Array.from("⁰¹²³⁴⁵⁶⁷⁸⁹") };
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export const count = (n) => whole.format(n);

/** A quantity, to three digits; those beyond all names as powers of ten. */
export function amount(x) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  if (size < 1e15 && (size >= 1e-4 || size === 0)) return short.format(x).replace("-", "−");
  const [digits, power] = x.toExponential(1).split("e");
  return `${digits} × 10${Array.from(String(Number(power)), (c) => RAISED[c]).join("")}`;
}

export const percent = (x) => `${amount(100 * x)}%`;

/** "1 decision", "2 decisions". */
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/** How long something lasts: "3 minutes". */
export function span(seconds) {
  const [unit, size] = UNITS.find(([, size]) => seconds >= 2 * size) ?? UNITS[3];
  return plural(Math.max(0, Math.round(seconds / size)), unit);
}

/** When something was: the time if it was today, else with its date. */
export function moment(seconds) {
  const then = new Date(1000 * seconds);
  const today = then.toDateString() === new Date().toDateString();
  return (today ? clock : day).format(then);
}

// times that go on: each element with data-since says how long that is ago, on the server's clock

let ahead = 0;

export const setClock = (now) => {
  ahead = now - Date.now() / 1000;
};
export const serverTime = () => Date.now() / 1000 + ahead;

/** Let an element say how long a moment is ago, or with "until" how long it is off. */
export function track(element, since, way = "since") {
  element.dataset[way] = since;
  tell(element);
}

function tell(element) {
  const { since, until } = element.dataset;
  const off = until === undefined ? serverTime() - since : until - serverTime();
  const text = until !== undefined && off <= 0 ? "passed" : span(off);
  const said = until !== undefined && off > 0 ? `in ${text}` : text;
  say(element, said);
}

setInterval(() => document.querySelectorAll("[data-since], [data-until]").forEach(tell), 1000);
