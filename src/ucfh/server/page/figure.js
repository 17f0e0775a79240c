// The figure: both bounds over episodes, and under them the gap. A bound holds from its plan on
// until the next one, so curves are steps, and the last one goes on to the present episode.

import { say } from "./dom.js";
import { amount, count } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const TOP = 26, BETWEEN = 46, BOTTOM = 44, LEFT = 50, LABEL = 34;
const SHAPES = {
  upper: "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0",
  lower: "m-4 -4h8v8h-8z",
  gap: "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
};
const EARLY = 0.1; // of the episodes: what was known before may lie outside,
const MUCH = 2.5; // if it would make the range this much larger

/** The least and the largest value of all points, or of the late ones if that differs much. */
function range(points, late, fields) {
  const [all, some] = [points, late].map((some) => {
    const values = fields.flatMap((field) => some.map((point) => point[field]));
    return [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  });
  return all[1] - all[0] <= MUCH * (some[1] - some[0]) ? all : some;
}

/** Round numbers that cover a range, about as many as asked for. */
export function ticks(low, high, about) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((x) => power * x >= rough * 0.999);
  const out = [];
  for (let k = Math.floor(low / step + 1e-9); k * step < high + step * (1 - 1e-9); k++) {
    out.push(Number((k * step).toPrecision(12)));
  }
  return out.length > 1 ? out : [...out, out[0] + step];
}

/** What is known before anything is told: the least and the most that an episode can pay. */
export function before({ horizon, rewards: [low, high], max_return: most }) {
  const upper = Math.min(horizon * Math.max(high, 0), most ?? Infinity);
  const lower = horizon * Math.min(low, 0);
  return { number: 0, episodes: 0, outcomes: 0, upper, lower, gap: upper - lower };
}

function draw(parent, tag, kind) {
  const element = document.createElementNS(SVG, tag);
  if (kind) element.setAttribute("class", kind);
  parent.append(element);
  return element;
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(typeof value === "number" ? Math.round(10 * value) / 10 : value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

/** Elements of one kind, as many as needed; the others are taken away. */
class Pool {
  constructor(parent, tag, kind) {
    Object.assign(this, { parent, tag, kind, all: [] });
  }

  fit(n) {
    while (this.all.length > n) this.all.pop().remove();
    while (this.all.length < n) this.all.push(draw(this.parent, this.tag, this.kind));
    return this.all;
  }
}

/** Axes with their grid, and curves that are cut off at their edge. */
class Panel {
  constructor(svg, name, title) {
    const group = draw(svg, "g");
    const clip = draw(draw(group, "clipPath"), "rect");
    clip.parentNode.id = `inside-${name}`;
    this.clip = clip;
    this.title = draw(group, "text", "title");
    this.title.textContent = title;
    this.lines = new Pool(draw(group, "g"), "path", "grid");
    this.numbers = new Pool(draw(group, "g"), "text", "number y");
    this.steps = new Pool(draw(group, "g"), "text", "number x");
    this.inside = draw(group, "g");
    set(this.inside, { "clip-path": `url(#inside-${name})` });
    this.marks = draw(group, "g");
  }

  /** Lay out a rectangle for values in [low, high] and episodes in [0, last]. */
  lay({ left, top, width, height }, low, high, last, numbered) {
    const up = ticks(low, high, height / 42);
    const across = ticks(0, last, Math.min(8, width / 60)).filter((n) => n <= last && n % 1 === 0);
    const [least, most] = [up[0], up[up.length - 1]];
    this.x = (n) => left + (width * n) / last;
    this.y = (value) => top + (height * (most - value)) / (most - least);
    set(this.clip, { x: left, y: top - 2, width: width + 1, height: height + 4 });
    set(this.title, { x: 0, y: top - 12 });
    const lines = this.lines.fit(up.length);
    this.numbers.fit(up.length).forEach((text, k) => {
      const y = this.y(up[k]);
      set(lines[k], { d: `M${left} ${y.toFixed(1)}h${width.toFixed(1)}` });
      set(text, { x: left - 8, y: y + 4 });
      say(text, amount(up[k]));
    });
    this.steps.fit(numbered ? across.length : 0).forEach((text, k) => {
      set(text, { x: this.x(across[k]), y: top + height + 18 });
      say(text, count(across[k]));
    });
  }

  /** The corners of a bound: flat until the next plan. */
  corners(points, field, last) {
    const out = [];
    let y = null;
    for (const point of points) {
      const x = this.x(point.episodes).toFixed(1);
      if (y !== null) out.push(`${x} ${y}`);
      y = this.y(point[field]).toFixed(1);
      out.push(`${x} ${y}`);
    }
    return [...out, `${this.x(last).toFixed(1)} ${y}`];
  }
}

/** A curve with its mark and its words at the right end. */
class Curve {
  constructor(panel, kind) {
    this.panel = panel;
    this.line = draw(panel.inside, "path", `curve ${kind}`);
    this.mark = draw(panel.marks, "path", `mark ${kind}`);
    const text = draw(panel.marks, "text", `label ${kind}`);
    this.words = [draw(text, "tspan"), draw(text, "tspan")];
    this.shape = SHAPES[kind];
  }

  draw(points, field, last) {
    const corners = this.panel.corners(points, field, last);
    const end = corners[corners.length - 1];
    this.right = this.panel.x(last);
    set(this.line, { d: `M${corners.join("L")}` });
    set(this.mark, { d: `M${end}${this.shape}` });
    return corners;
  }

  /** Say what it is in two lines, at some height. */
  label(y, lines) {
    this.words.forEach((word, k) => {
      set(word, { x: this.right + 12, y: y + 16 * k - 3 });
      say(word, lines[k]);
    });
  }
}

export class Figure {
  constructor(svg, description) {
    Object.assign(this, { svg, description, drawn: null });
    this.earned = new Panel(svg, "earned", "Reward per episode");
    this.short = new Panel(svg, "gap", "Gap");
    this.between = draw(this.earned.inside, "path", "between");
    this.band = draw(this.short.inside, "rect", "band");
    this.needed = draw(this.short.inside, "path", "needed");
    this.upper = new Curve(this.earned, "upper");
    this.lower = new Curve(this.earned, "lower");
    this.gap = new Curve(this.short, "gap");
    this.goal = draw(this.short.marks, "text", "goal");
    this.axis = draw(svg, "text", "number x axis");
    this.axis.textContent = "episodes";
    new ResizeObserver(() => this.drawn && this.draw(...this.drawn)).observe(svg.parentNode);
  }

  /** Draw plans in order, the first one before anything was told, up to the present episode. */
  draw(points, last, epsilon) {
    this.drawn = [points, last, epsilon];
    const room = this.svg.parentNode.clientWidth;
    if (!room) return; // not shown yet
    const wide = room >= 560, right = wide ? 168 : 76;
    const first = { left: LEFT, top: TOP, width: room - LEFT - right, height: wide ? 230 : 190 };
    const second = { ...first, top: TOP + first.height + BETWEEN, height: wide ? 130 : 110 };
    const height = second.top + second.height + BOTTOM;
    set(this.svg, { viewBox: `0 0 ${room} ${height}`, width: room, height });

    const end = Math.max(last, 1), now = points.at(-1);
    const late = points.slice(points.findLastIndex((x) => x.episodes <= EARLY * end));
    this.earned.lay(first, ...range(points, late, ["lower", "upper"]), end, false);
    const [low, high] = range(points, late, ["gap"]);
    this.short.lay(second, Math.min(0, low), Math.max(high, 1.5 * epsilon), end, true);
    set(this.axis, { x: first.left + first.width, y: height - 6 });

    const { x, y } = this.short;
    set(this.band, { x: x(0), y: y(epsilon), width: first.width, height: y(0) - y(epsilon) });
    set(this.needed, { d: `M${x(0)} ${y(epsilon).toFixed(1)}h${first.width}` });
    set(this.goal, { x: x(0) + 8, y: y(epsilon) - 6 });
    say(this.goal, `needed: ${amount(epsilon)} or less`);

    const ceiling = this.upper.draw(points, "upper", end);
    const floor = this.lower.draw(points, "lower", end);
    set(this.between, { d: `M${[...ceiling, ...floor.reverse()].join("L")}Z` });
    const u = this.earned.y(now.upper), l = this.earned.y(now.lower);
    const push = Math.max(0, LABEL + 4 - Math.abs(l - u)) / 2 * (u <= l ? 1 : -1);
    const most = amount(now.upper), least = amount(now.lower);
    const [no, some] = wide ? ["no policy earns", "this policy earns"] : ["at most", "at least"];
    this.upper.label(u - push, [no, wide ? `more than ${most}` : most]);
    this.lower.label(l + push, [some, wide ? `at least ${least}` : least]);
    this.gap.draw(points, "gap", end);
    this.gap.label(y(now.gap), ["gap", amount(now.gap)]);
    say(this.description, `After ${count(last)} episodes no policy earns more than ${most} per `
      + `episode, this policy earns at least ${least}, and the gap is ${amount(now.gap)}; `
      + `${amount(epsilon)} or less is needed. The table below has all numbers.`);
  }
}
