// The JSON API of the page: requests, errors in words, and what is loaded again when.

import { merged, parsed } from "./model.js";

const TIMEOUT = 30;
const MAX_WAIT = 300;
/** In seconds: the service may ask for an hour. */
const MAX_RETRY_AFTER = 3600;
/** Longer than answers are kept, in ms. */
const SEEDED = 11000;
/** In ms: a list may come first. */
const DELAY = 100;

const AIRFLOW = {
  0: ["Airflow's API server does not answer.", "Check your network, and that the API server runs."],
  401: ["You are not logged in to Airflow.", "Log in again; this page opens then."],
  403: [
    "Airflow does not allow you to do this.",
    "Ask an administrator for a role that may read or edit connections.",
  ],
  404: [
    "The API of this page is not there.",
    "Reload the page. If that does not help, restart the API server.",
  ],
};

/** `status` of HTTP (0 without an answer), `retryAfter` in seconds. */
export class Problem extends Error {
  constructor(status, body, retryAfter = 0) {
    const [title, fix] = AIRFLOW[status]
      ?? [`Airflow's API server failed (HTTP ${status}).`, "Its log has the reason."];
    const { error } = body ?? {};
    super(error?.title ?? title);
    Object.assign(this, {
      status, code: error?.code, title: this.message, fix: error ? error.fix : fix, retryAfter });
    // It passes by itself within seconds.
    this.isBusy = ["busy", "rate_limited"].includes(this.code);
  }
}

const asProblem = (error) => (error instanceof Problem ? error : new Problem(0));

/** Requests to the API; a path is a list of names. */
export function createClient({ root, fetch, clock }) {
  async function send(path, query, signal, options, api = "workflow/api", parse = JSON.parse) {
    const control = new AbortController();
    const abort = () => control.abort();
    const timer = clock.setTimeout(abort, TIMEOUT * 1000);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    try {
      const url = new URL(`${api}/${path.map(encodeURIComponent).join("/")}${query}`, root);
      const response = await fetch(url.href, { signal: control.signal, ...options });
      const body = await response.text().then(parse).catch(() => null);
      if (response.ok && body) return body;
      const retryAfter = Math.min(Number(response.headers.get("Retry-After")) || 0, MAX_RETRY_AFTER);
      throw new Problem(response.ok ? 502 : response.status, body, retryAfter);
    } catch (error) {
      throw asProblem(error);
    } finally {
      clock.clearTimeout(timer);
    }
  }
  const headers = { "Content-Type": "application/json", "X-Workflow-Page": "1" };
  return {
    get: (path, cursor, signal) => send(path, cursor ? `?cursor=${encodeURIComponent(cursor)}` : "", signal),
    /** From the API of Airflow itself, which decides who may read what. */
    airflow: (path, query, signal) =>
      send(path, query ? `?${new URLSearchParams(query)}` : "", signal, {}, "api/v2", parsed),
    post: (path, body) => send(path, "", null, { method: "POST", headers, body: JSON.stringify(body) }),
  };
}

/** At most `most` calls at once. */
export function limited(most, call) {
  const lanes = [];
  let turn = 0;
  return (...args) => {
    turn = (turn + 1) % most;
    lanes[turn] = Promise.resolve(lanes[turn]).catch(() => {}).then(() => call(...args));
    return lanes[turn];
  };
}

/** Seconds until the next request. */
export const nextDelay = ({ interval, failures, retryAfter }) =>
  Math.max(Math.min(interval * 2 ** failures, MAX_WAIT), retryAfter ?? 0);

/**
 * Loads an answer every `interval` seconds while the tab is visible; after `loadAll` on demand only.
 *
 * With `isSeeded` a list brings what the server has, and tells when to ask: one of many browsers does.
 *
 * @param load `(cursor, signal) => Promise<answer>`; `answer.next` is the next cursor or null.
 * @param name of the field of an answer that has the items.
 */
export class Feed {
  #subscribers = new Set();
  #timer;
  #control;
  #unwatch;
  #dueAt = 0;
  #heldUntil = 0;
  #turn = 0;
  #state = {
    answer: null, items: [], next: null, pages: 0, skew: 0, problem: null, failures: 0, isLoadingAll: false };

  constructor(options) {
    Object.assign(this, { keyOf: (item) => item.id, interval: 10 }, options);
  }

  get = () => this.#state;

  subscribe = (subscriber) => {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  };

  start() {
    this.#unwatch = this.visibility.subscribe(() => this.#schedule());
    this.#schedule(this.clock.now() >= this.#dueAt);
  }

  stop() {
    this.#unwatch?.();
    this.#unwatch = null;
    this.#abort();
  }

  /** Use the answer of a list, if it is newer; ask, if there is none and the last one is old. */
  seed(answer) {
    const now = this.clock.now();
    if (now < this.#heldUntil || answer?.fetched_at <= this.#state.answer?.fetched_at) return;
    if (answer) {
      this.#dueAt = now + this.interval * 1000 + SEEDED;
      this.#set({ ...this.#added(null, answer), problem: null, failures: 0 });
    } else if (!this.#state.problem && now >= this.#dueAt - SEEDED) this.#dueAt = now;
    this.#schedule();
  }

  /** Show the result of a change, while the server may still give answers from before. */
  replace(item) {
    const items = this.#state.items.map((old) =>
      (this.keyOf(old) === this.keyOf(item) ? { ...old, ...item } : old));
    this.#abort();
    this.#dueAt = this.#heldUntil = this.clock.now() + SEEDED;
    this.#set({ items });
    this.#schedule();
  }

  async refresh() {
    this.#abort();
    await this.#request(null);
    this.#schedule();
  }

  /** Load what follows, up to `limit` items. */
  async loadAll(limit = 5000) {
    this.#abort();
    const turn = this.#turn;
    this.#set({ isLoadingAll: true });
    while (this.#state.next && this.#state.items.length < limit) {
      const isDone = await this.#request(this.#state.next);
      if (turn !== this.#turn) return;
      if (isDone) continue;
      if (!this.#state.problem.isBusy) break;
      await new Promise((resolve) => this.clock.setTimeout(resolve, this.#dueAt - this.clock.now()));
      if (turn !== this.#turn) return;
    }
    this.#set({ isLoadingAll: false });
    this.#schedule();
  }

  #set(changes) {
    this.#state = { ...this.#state, ...changes };
    this.#subscribers.forEach((notify) => notify());
  }

  #abort() {
    this.#turn += 1;
    this.clock.clearTimeout(this.#timer);
    this.#control?.abort();
    this.#control = null;
    this.#set({ isLoadingAll: false });
  }

  /** False also where another request took the place of this one. */
  async #request(cursor) {
    const control = (this.#control = new AbortController());
    let changes;
    try {
      const answer = await this.load(cursor, control.signal);
      changes = { ...this.#added(cursor, answer), problem: null, failures: 0 };
    } catch (error) {
      changes = { problem: asProblem(error), failures: this.#state.failures + 1 };
    }
    if (control !== this.#control) return false;
    this.#control = null;
    const { problem, failures } = changes;
    const interval = problem?.isBusy ? 1 : this.interval;
    const delay = nextDelay({ interval, failures, retryAfter: problem?.retryAfter });
    this.#dueAt = this.clock.now() + delay * 1000 + (this.isSeeded && !problem ? SEEDED : 0);
    this.#set(changes);
    return !problem;
  }

  #added(cursor, answer) {
    const items = answer[this.name] ?? [];
    const now = this.clock.now();
    return {
      answer,
      findings: [...(cursor ? this.#state.findings : []), ...(answer.findings ?? [])],
      items: cursor ? merged(this.#state.items, items, this.keyOf) : items,
      next: answer.next ?? null,
      pages: cursor ? this.#state.pages + 1 : 1,
      // Ages are those of the server's clock.
      skew: (Date.parse(answer.fetched_at) || now) - now,
    };
  }

  #schedule(isDue) {
    this.clock.clearTimeout(this.#timer);
    if ((!isDue && this.#state.pages > 1) || !this.#unwatch || this.#control || this.#state.isLoadingAll
      || !this.visibility.isVisible()) return;
    this.#timer = this.clock.setTimeout(() => this.refresh(),
      Math.max(this.isSeeded ? DELAY : 0, this.#dueAt - this.clock.now()));
  }
}
