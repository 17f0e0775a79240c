// Decisions that wait for their outcome, the oldest first, and how to give up an episode.

import { cell, find, make, named, Rows, say, show, textOf } from "./dom.js";
import { count, plural, track } from "./words.js";
import { call, pathOf, Reading } from "./service.js";

const MOST = 100;

export class OpenDecisions {
  constructor(task, speak) {
    Object.assign(this, { task, speak, may: false, waiting: 0, seen: "" });
    this.reading = new Reading(find("open-text").parentNode, () => this.read());
    this.rows = new Rows(
      find("open-rows"),
      (x) => JSON.stringify([x.episode, x.t]),
      (x) => this.row(x),
      (row) => show(row.lastChild, this.may),
    );
    this.dialog = find("abandon");
    find("abandon-keep").addEventListener("click", () => this.dialog.close());
    find("abandon-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.abandon();
    });
  }

  follow({ status: n }, may) {
    const now = [n.decisions, n.outcomes, n.lost, n.waiting, may].join();
    if (now === this.seen) return;
    Object.assign(this, { seen: now, waiting: n.waiting, may });
    show(find("open-act"), may);
    this.reading.changed();
    if (!n.waiting) this.say([]);
  }

  async read() {
    const path = pathOf(this.task, `decisions?status=open&limit=${MOST}`);
    this.say((await call("GET", path)).decisions);
  }

  say(decisions) {
    this.rows.follow(decisions);
    show(find("open"), decisions.length > 0);
    const hint = this.may ? "" : " To give up an episode, sign in with a token that may write.";
    say(find("open-text"), decisions.length ? hint.trim() : "None: no decision is open.");
    show(find("open-text"), find("open-text").textContent !== "");
    const all = plural(Math.max(this.waiting, decisions.length), "open decision");
    const some = decisions.length < this.waiting ? `The ${count(decisions.length)} oldest of ` : "";
    say(find("open-caption"), `${some}${all}, the oldest first`);
  }

  row(x) {
    const waiting = make("time"), deadline = make("time");
    track(waiting, x.asked);
    if (x.deadline === null) deadline.textContent = "none";
    else track(deadline, x.deadline, "until");
    const label = `Give up episode ${textOf(x.episode)}`;
    const button = make("button", { type: "button", "aria-label": label }, "Give up…");
    button.addEventListener("click", () => this.ask(x.episode));
    return make(
      "tr", {}, make("th", { scope: "row" }, named(x.episode)), cell(count(x.t), "n"),
      cell(named(x.state)), cell(named(x.action)), cell(waiting), cell(deadline), cell(button),
    );
  }

  /** Ask whether an episode is to be given up, and why. */
  ask(episode) {
    this.episode = episode;
    say(find("abandon-episode"), episode);
    say(find("abandon-wrong"), "");
    find("abandon-reason").value = "";
    this.dialog.showModal();
    find("abandon-reason").focus();
  }

  async abandon() {
    const reason = find("abandon-reason").value.trim();
    try {
      const path = `episodes/${encodeURIComponent(this.episode)}/abandon`;
      await call("POST", pathOf(this.task, path), reason ? { reason } : {});
    } catch (problem) {
      say(find("abandon-wrong"), `Not given up: ${problem.message}.`);
      return;
    }
    this.dialog.close();
    this.speak(`Episode ${this.episode} was given up.`);
    await this.read().catch(() => this.reading.changed());
    (find("open-rows").querySelector("button") ?? find("main")).focus();
  }
}
