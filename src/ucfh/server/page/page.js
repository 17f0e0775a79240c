// The page of a service: which task, who may see it, and what follows its views.

import { cell, Filtered, find, make, named, Rows, say, show } from "./dom.js";
import { amount, count, moment, setClock } from "./words.js";
import { before, Figure } from "./figure.js";
import { PlanTable, showAbout, showAssumed, showMissing, showNow } from "./sections.js";
import { PolicyTable } from "./policy.js";
import { OpenDecisions } from "./decisions.js";
import { call, Listening, pathOf } from "./service.js";

const STATES = { new: "New", learning: "Learning", certified: "Certified", refuted: "Refuted" };
const SPOKEN = 60_000; // milliseconds between two readings of the sentence to those who listen
const LISTED = 3000; // milliseconds between two readings of the list of tasks

let role = null; // "write", "read", or null: signed out
let leave = () => {}; // stops what the page follows

function speak(text) {
  say(find("spoken"), text);
}

function notify(text) {
  say(find("notice"), text);
  show(find("notice"), text !== "");
}

/** Say when what is shown is from, or since when nothing has come. */
const link = {
  since: null,
  live() {
    this.since = null;
    show(find("link"), true);
    say(find("link"), "Live");
    find("link").classList.remove("off");
  },
  lost() {
    if (this.since === null) speak("The connection is lost.");
    this.since ??= Date.now() / 1000;
    show(find("link"), true);
    say(find("link"), `Connection lost at ${moment(this.since)}; trying again`);
    find("link").classList.add("off");
  },
};

/** A task: its view, and everything that shows it. */
class TaskPage {
  constructor(task) {
    this.task = task;
    this.view = null;
    this.plans = [];
    this.figure = new Figure(find("figure"), find("figure-text"));
    this.table = new PlanTable(find("figure-details"), find("figure-rows"));
    this.policy = new PolicyTable(task);
    this.open = new OpenDecisions(task, speak);
    this.spoken = { state: null, text: "", at: 0 };
    find("title").replaceChildren(named(task));
    this.listening = new Listening(pathOf(task, "events"), {
      take: (view, first) => this.take(view, first),
      lost: () => this.lost(),
    });
  }

  /** Take a view; it is drawn when the browser next paints, however many come until then. */
  take(view, first) {
    const last = first ? 0 : this.plans.at(-1)?.number ?? 0;
    if (first) this.plans = [];
    this.plans.push(...view.plans.filter((x) => x.number > last));
    if (this.view === null) showAbout(view);
    if (link.since !== null) speak("The connection is back.");
    link.live();
    if (!this.drawing) {
      this.drawing = true;
      requestAnimationFrame(() => {
        this.drawing = false;
        this.draw();
      });
    }
    this.view = view;
  }

  draw() {
    const { view } = this, { declaration, headline, state, status, now } = view;
    setClock(now);
    say(find("headline"), headline);
    say(find("state"), STATES[state] ?? state);
    find("state").className = `verdict ${state}`;
    say(find("target"), `Certified means here: a gap of ${amount(declaration.epsilon)} or less; `
      + `this is wrong with a probability of ${amount(declaration.delta)} at most.`);
    document.title = `${this.task}: ${(STATES[state] ?? state).toLowerCase()} · ucfh`;
    show(find("task"), true);
    show(find("bounds-note"), state === "refuted");
    const points = [before(declaration), ...this.plans];
    this.figure.draw(points, Math.max(status.begun, points.at(-1).episodes), declaration.epsilon);
    this.table.follow(this.plans);
    showNow(view, this.plans.at(-1));
    showMissing(view);
    showAssumed(view);
    this.policy.follow(view);
    this.open.follow(view, role === "write");
    this.read(state, headline);
  }

  /** Read the sentence aloud if the state is another one, or after a while. */
  read(state, headline) {
    const { spoken } = this, now = Date.now();
    const news = spoken.state !== null && state !== spoken.state;
    const old = headline !== spoken.text && now - spoken.at > SPOKEN;
    if (spoken.state === null || news || old) {
      if (spoken.state !== null) speak(headline);
      this.spoken = { state, text: headline, at: now };
    }
  }

  async lost() {
    link.lost();
    const session = await call("GET", "/session").catch(() => null);
    if (session?.needed && !session.role) ended();
  }
}

/** The tasks of the store. */
class TaskList {
  constructor() {
    say(find("title"), "Tasks");
    document.title = "Tasks · ucfh";
    show(find("tasks"), true);
    this.all = [];
    const parts = [find("task-filter"), find("task-more")];
    this.filtered = new Filtered(...parts, 100, "tasks", () => this.draw());
    this.rows = new Rows(
      find("task-rows"),
      (x) => x.task,
      (x) => {
        const href = `/tasks/${encodeURIComponent(x.task)}`;
        const name = make("a", { href }, make("bdi", {}, x.task));
        const numbers = [1, 2, 3].map(() => cell("", "n"));
        return make("tr", {}, make("th", { scope: "row" }, name), cell(), ...numbers);
      },
      (row, x) => {
        const [, state, gap, episodes, waiting] = row.children;
        const known = x.policy ? "learning" : "new";
        say(state, STATES[x.refuted ? "refuted" : x.certified ? "certified" : known]);
        say(gap, x.refuted ? "–" : amount(x.gap));
        say(episodes, count(x.begun));
        say(waiting, count(x.waiting));
      },
    );
  }

  follow(tasks) {
    this.all = tasks;
    show(find("no-task"), tasks.length === 0);
    show(find("task-list"), tasks.length > 0);
    this.draw();
  }

  draw() {
    this.rows.follow(this.filtered.of(this.all, (x) => x.task));
  }
}

/** Read all tasks, page after page. */
async function readTasks() {
  const found = [];
  for (let path = "/v1/tasks?limit=1000"; ;) {
    const { tasks, more } = await call("GET", path);
    found.push(...tasks);
    if (!more) return found;
    path = `/v1/tasks?limit=1000&after=${encodeURIComponent(tasks.at(-1).task)}`;
  }
}

/** Show the task of the address, the only one, or the list of all. */
async function enter() {
  const named = /^\/tasks\/([^/]+)\/?$/.exec(location.pathname);
  if (named) return follow(decodeURIComponent(named[1]));
  const tasks = await readTasks();
  if (tasks.length === 1) return follow(tasks[0].task);
  const list = new TaskList();
  list.follow(tasks);
  link.live();
  let timer = null;
  const again = async () => {
    const begun = Date.now();
    try {
      if (!document.hidden) {
        list.follow(await readTasks());
        link.live();
      }
    } catch (problem) {
      if (problem.status === 401) return ended();
      link.lost();
    }
    // a list that takes long is read less often
    timer = setTimeout(again, Math.max(LISTED, 10 * (Date.now() - begun)));
  };
  timer = setTimeout(again, LISTED);
  leave = () => clearTimeout(timer);
}

async function follow(task) {
  await call("GET", pathOf(task));
  const page = new TaskPage(task);
  leave = () => page.listening.stop();
}

/** Ask for a token; what is on the page stays. */
function askToken() {
  show(find("sign-in"), true);
  show(find("sign-out"), false);
  show(find("link"), false);
  find("token").focus();
}

function ended() {
  if (role === null) return;
  role = null;
  leave();
  const now = moment(Date.now() / 1000);
  notify(`Your session has ended. What you see is from ${now}; sign in again to go on.`);
  askToken();
}

async function start() {
  const session = await call("GET", "/session");
  if (session.needed && !session.role) {
    say(find("title"), "Sign in");
    return askToken();
  }
  role = session.needed ? session.role : "write";
  show(find("sign-in"), false);
  show(find("sign-out"), session.needed);
  if (session.until) setTimeout(checkSession, Math.max(0, 1000 * session.until - Date.now()));
  await enter();
}

/** Ask whether the session still stands: clocks differ, and tokens are revoked. */
async function checkSession() {
  const session = await call("GET", "/session").catch(() => null);
  if (session?.needed && !session.role) ended();
  else setTimeout(checkSession, SPOKEN);
}

/** Begin, and say what is in the way. */
async function begin() {
  notify("");
  try {
    await start();
  } catch (problem) {
    notify(problem.status === 404 ? "There is no such task in this store."
      : `This page cannot be shown: ${problem.message}.`);
    if (problem.status === 0) setTimeout(begin, LISTED);
  }
}

find("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  say(find("refused"), "");
  try {
    await call("POST", "/session", { token: find("token").value.trim() });
  } catch (problem) {
    say(find("refused"), problem.status === 401
      ? "This token is not known here, or no longer valid." : `Not signed in: ${problem.message}.`);
    find("token").select();
    return;
  }
  location.reload();
});

find("sign-out").addEventListener("click", async () => {
  await call("DELETE", "/session").catch(() => {});
  location.reload();
});

begin();
