// A client of a ucfh service for browsers and Node.js 18 or newer, without dependencies.
//
//     import { Task } from "./client.mjs";
//     const task = new Task("http://127.0.0.1:8765", { task: "calls", token });
//     let decision = await task.ask("new", "customer-17", 0);
//     decision = await task.tell(decision, { reward: 0.5, state: "busy" });  // null: the episode is over
//
// The service has written what a call changes before it answers. The key of a decision is its
// episode and its step, so every call may be repeated: what gets lost on its way is sent again.
// As a program of its own it plays some episodes: node client.mjs http://127.0.0.1:8765 calls

const PATIENCE = 20_000; // milliseconds for which a call is sent again
const TIMEOUT = 60_000; // milliseconds to wait for an answer

/** Why a call was refused: `status` as HTTP has it, `fault` by name, such as "Conflict". */
export class Problem extends Error {
  constructor({ status, fault, detail }) {
    super(detail);
    this.name = "Problem";
    this.status = status;
    this.fault = fault;
  }
}

/** A task of a service. */
export class Task {
  /** `onlate` is called with the words of the service if an outcome came too late to count. */
  constructor(url, { task = "task", token, onlate = () => {} } = {}) {
    this.base = `${url.replace(/\/+$/, "")}/v1/tasks/${encodeURIComponent(task)}`;
    this.token = token;
    this.onlate = onlate;
  }

  /** The decision in a state of an episode at a step, counted from 0. */
  ask(state, episode, t, actions) {
    return this.call("PUT", step({ episode, t }), { state, actions });
  }

  /** Tell what came of a decision; the next one, or null if the episode is over. */
  async tell(decision, { reward, state, done, actions }) {
    try {
      const outcome = { reward, state, done, actions };
      return (await this.call("PUT", `${step(decision)}/outcome`, outcome)).next;
    } catch (problem) {
      if (problem.status !== 410) throw problem;
      this.onlate(problem.message); // kept, not counted: no reason to stop
      return null;
    }
  }

  /** Record a step in which another person or program chose the action. */
  record(episode, t, { state, action, reward, next_state, done }) {
    const chosen = { state, action, reward, next_state, done };
    return this.call("PUT", `${step({ episode, t })}/record`, chosen);
  }

  /** Give up an episode. */
  abandon(episode, reason = "") {
    return this.call("POST", `episodes/${encodeURIComponent(episode)}/abandon`, { reason });
  }

  /** How the task is doing. */
  view() {
    return this.call("GET", "");
  }

  /** What is known of the policy. */
  certificate() {
    return this.call("GET", "certificate");
  }

  /** Send a request, again for some seconds if nobody answers or the service is busy. */
  async call(method, path, body) {
    const headers = { Accept: "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (body) headers["Content-Type"] = "application/json";
    const address = path ? `${this.base}/${path}` : this.base;
    const until = Date.now() + PATIENCE;
    for (let pause = 100; ; pause = Math.min(2 * pause, 2000)) {
      let response;
      try {
        const signal = AbortSignal.timeout(TIMEOUT);
        response = await fetch(address, { method, headers, signal, body: body && JSON.stringify(body) });
      } catch (error) {
        if (Date.now() + pause > until) throw error;
      }
      if (response?.ok) return response.json();
      if (response && !([502, 503, 504].includes(response.status) && Date.now() + pause < until)) {
        const found = await response.json().catch(() => ({}));
        throw new Problem({ status: response.status, detail: response.statusText, ...found });
      }
      const asked = 1000 * Number(response?.headers.get("Retry-After") ?? 0);
      await new Promise((resolve) => setTimeout(resolve, Math.max(pause, asked || 0)));
    }
  }
}

const step = ({ episode, t }) => `episodes/${encodeURIComponent(episode)}/steps/${t}`;

/** Play episodes of a simulated task with the actions "call" and "mail"; how many decisions it took. */
export async function play(task, names) {
  let decisions = 0;
  for (const name of names) {
    let decision = await task.ask("new", name, 0);
    while (decision !== null) {
      decisions += 1;
      const bought = Math.random() < (decision.action === "call" ? 0.6 : 0.2);
      decision = await task.tell(decision, { reward: bought ? 1 : 0, state: "new", done: bought });
    }
  }
  return decisions;
}

if (globalThis.process?.argv[1]?.endsWith("client.mjs")) {
  const [url, name] = process.argv.slice(2);
  const names = Array.from({ length: 20 }, (_, k) => `visitor-${Date.now()}-${k}`);
  try {
    if (!name) throw new Error("usage: node client.mjs http://127.0.0.1:8765 TASK");
    const task = new Task(url, { task: name, token: process.env.UCFH_TOKEN, onlate: console.warn });
    console.log(`${await play(task, names)} decisions`);
    console.log((await task.view()).headline);
  } catch (problem) {
    console.error(`client.mjs: ${problem.cause?.message ?? problem.message}`);
    process.exitCode = 1;
  }
}
