// Calls to the service. The browser keeps the session in a cookie that scripts cannot read.

const AGAIN = 2000; // milliseconds until the next attempt to connect, up to twice that
const QUIET = 45_000; // without even a pulse: the connection is dead, and nobody has noticed
const PAUSE = 2000; // between two readings of the same thing,
const UNSEEN = 15_000; // if it is not on the screen

/** What went wrong with a call, in the service's own words. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const pathOf = (task, rest = "") =>
  `/v1/tasks/${encodeURIComponent(task)}${rest ? `/${rest}` : ""}`;

/** Make a call; the answer's JSON, or a Problem. */
export async function call(method, path, body) {
  const options = { method, cache: "no-store", credentials: "same-origin" };
  if (body !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options).catch(() => {
    throw new Problem(0, "the service cannot be reached");
  });
  const said = await answer.json().catch(() => null);
  if (!answer.ok) {
    throw new Problem(answer.status, said?.detail ?? said?.title ?? `status ${answer.status}`);
  }
  return said;
}

/**
 * Views of a task as they change. A page that nobody sees listens to nothing (browsers allow few
 * connections to one host); when it is seen again it gets all that there is.
 */
export class Listening {
  constructor(path, { take, lost }) {
    Object.assign(this, { path, take, lost, source: null, wait: null, heard: 0, stopped: false });
    document.addEventListener("visibilitychange", () => this.open());
    addEventListener("online", () => this.open());
    setInterval(() => Date.now() - this.heard > QUIET && this.source && this.open(), 5000);
    this.open();
  }

  open() {
    this.close();
    if (this.stopped || document.hidden) return;
    const source = (this.source = new EventSource(this.path));
    let first = true;
    const hear = () => (this.heard = Date.now());
    hear();
    source.addEventListener("pulse", hear);
    source.addEventListener("view", (event) => {
      hear();
      this.take(JSON.parse(event.data), first);
      first = false;
    });
    source.addEventListener("error", () => {
      this.close();
      this.wait = setTimeout(() => this.open(), AGAIN * (1 + Math.random()));
      this.lost();
    });
  }

  close() {
    clearTimeout(this.wait);
    this.source?.close();
    this.source = null;
  }

  stop() {
    this.stopped = true;
    this.close();
  }
}

/** Reads something again after it has changed, more often while it is on the screen. */
export class Reading {
  constructor(section, read) {
    Object.assign(this, { read, seen: false, due: false, busy: false, last: -Infinity });
    const watch = new IntersectionObserver(([entry]) => {
      this.seen = entry.isIntersecting;
      this.run();
    }, { rootMargin: "300px" });
    watch.observe(section);
    setInterval(() => this.run(), 500);
  }

  changed() {
    this.due = true;
    this.run();
  }

  async run() {
    const now = Date.now();
    if (!this.due || this.busy || now - this.last < (this.seen ? PAUSE : UNSEEN)) return;
    Object.assign(this, { busy: true, due: false, last: now });
    await this.read().catch(() => (this.due = true)); // the page says that the connection is lost
    this.busy = false;
  }
}
