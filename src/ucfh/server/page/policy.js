// The policy by state and step, with the plan that last changed each entry. It is read again when
// there is a newer one, at most every two seconds and only while it is on the screen.

import { Filtered, find, make, named, Rows, say, show, textOf } from "./dom.js";
import { count, plural } from "./words.js";
import { call, pathOf, Reading } from "./service.js";

const RECENT = 5; // policies: what changed in the last ones is marked
const NONE = "Nothing is planned yet: the first action is taken in every state.";
const FIRST = 50; // states that are shown at first

export class PolicyTable {
  constructor(task) {
    this.task = task;
    this.number = 0;
    this.known = null;
    this.reading = new Reading(find("policy-text").parentNode, async () => {
      this.known = await call("GET", pathOf(task, "policy"));
      this.draw();
    });
    const parts = [find("policy-filter"), find("policy-more")];
    this.filtered = new Filtered(...parts, FIRST, "states", () => this.draw());
    this.rows = new Rows(
      find("policy-rows"), (s) => s, (s) => this.row(s), (row, s) => this.update(row, s),
    );
  }

  follow({ status }) {
    if (status.policy === 0) say(find("policy-text"), NONE);
    if (status.policy === this.number) return;
    this.number = status.policy;
    this.reading.changed();
  }

  row(s) {
    const { horizon, states } = this.known;
    const entry = () => make("td", {}, make("bdi"), make("small"));
    const entries = Array.from({ length: horizon }, entry);
    return make("tr", {}, make("th", { scope: "row" }, named(states[s])), ...entries);
  }

  update(row, s) {
    const { policy, table, changed } = this.known;
    for (let t = 0; t < table.length; t++) {
      const entry = row.children[t + 1], since = changed[t][s];
      say(entry.firstChild, this.names[table[t][s]] ?? "–");
      say(entry.lastChild, since > 0 ? count(since) : "");
      entry.classList.toggle("recent", since > 0 && since > policy - RECENT);
    }
  }

  draw() {
    const { policy, horizon, states, actions } = this.known;
    show(find("policy"), policy > 0);
    if (!policy) return;
    this.names = actions.map(textOf);
    const head = find("policy-head");
    while (head.children.length <= horizon) {
      head.append(make("th", { scope: "col" }, `Step ${head.children.length - 1}`));
    }
    say(find("policy-text"), `Policy ${count(policy)}, which the bounds above are about. While it `
      + "learns, decisions also try other actions, where too little is known.");
    say(find("policy-caption"), `${plural(states.length, "state")} in the order in which they were `
      + "found. The small number is the policy that last changed the entry; entries that changed "
      + `in the last ${RECENT} policies are marked.`);
    const all = states.map((_, s) => s);
    this.rows.follow(this.filtered.of(all, (s) => textOf(states[s])));
  }
}
