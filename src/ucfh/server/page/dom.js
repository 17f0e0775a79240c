// Elements by id, made, and changed only where something is different. Names of states, actions
// and episodes are anybody's text: they become text nodes, isolated from the direction around them.

const LONGEST = 48; // characters of a name before the rest is folded
const FEW = 20; // lines of a list that need no filter

export const find = (id) => document.getElementById(id);

/** An element with attributes and children, which are texts or elements. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Say something else, if it is something else. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

/** A state, an action or an episode as a text: lists as (a, b); blanks in quotation marks. */
export function textOf(label) {
  if (Array.isArray(label)) return `(${label.map(textOf).join(", ")})`;
  const text = String(label);
  return text.trim() === "" ? JSON.stringify(text) : text;
}

/** A name as an element; of a long one the beginning, which opens to all of it. */
export function named(label) {
  const letters = Array.from(textOf(label));
  const whole = make("bdi", {}, letters.join(""));
  if (letters.length <= LONGEST) return whole;
  const start = make("bdi", {}, letters.slice(0, LONGEST - 8).join("") + "…");
  return make("details", { class: "long" }, make("summary", {}, start), whole);
}

/** A cell of a table. */
export const cell = (content = "", kind = "") =>
  make("td", kind ? { class: kind } : {}, content);

/**
 * Rows of a table that follow a list: rows of keys that are gone go, new ones are made, and all are
 * brought up to date, without touching what is the same.
 */
export class Rows {
  constructor(body, keyOf, makeRow, update = () => {}) {
    Object.assign(this, { body, keyOf, makeRow, update, rows: new Map() });
  }

  follow(items) {
    const keys = new Set(items.map(this.keyOf));
    for (const [key, row] of this.rows) {
      if (!keys.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    }
    let place = this.body.firstElementChild;
    for (const item of items) {
      const key = this.keyOf(item);
      let row = this.rows.get(key);
      if (row === undefined) {
        row = this.makeRow(item);
        this.rows.set(key, row);
      }
      this.update(row, item);
      if (row === place) place = place.nextElementSibling;
      else this.body.insertBefore(row, place);
    }
  }
}

/** A list of which the first are shown, by a filter, and more on request. */
export class Filtered {
  constructor(input, more, first, what, changed) {
    Object.assign(this, { input, more, first, what, most: first });
    this.count = make("span");
    this.button = make("button", { type: "button" });
    more.append(this.count, " ", this.button);
    input.addEventListener("input", () => {
      this.most = first;
      changed();
    });
    this.button.addEventListener("click", () => {
      this.most += 4 * first;
      changed();
    });
  }

  /** Those to show now, of all, with the text that is searched in. */
  of(items, text) {
    show(this.input.parentNode, items.length > FEW);
    const wanted = this.input.value.trim().toLowerCase();
    const fitting = wanted ? items.filter((x) => text(x).toLowerCase().includes(wanted)) : items;
    const left = Math.max(0, fitting.length - this.most);
    say(this.count, left || wanted
      ? `${Math.min(this.most, fitting.length)} of ${fitting.length} ${this.what} shown.` : "");
    say(this.button, `Show ${Math.min(left, 4 * this.first)} more`);
    show(this.button, left > 0);
    show(this.more, Boolean(left || wanted));
    return fitting.slice(0, this.most);
  }
}
