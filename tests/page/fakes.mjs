// A clock, a tab and a server for tests of the page's logic.

/** Let everything happen that waits for nothing but its turn. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));

export class FakeClock {
  #timers = new Map();
  #last = 0;
  time = Date.parse("2026-11-23T12:00:00Z");

  now = () => this.time;

  setTimeout = (call, milliseconds) => {
    this.#timers.set((this.#last += 1), { call, at: this.time + milliseconds });
    return this.#last;
  };

  clearTimeout = (timer) => this.#timers.delete(timer);

  get waiting() {
    return this.#timers.size;
  }

  /** Let seconds pass, and everything happen that is due in them. */
  async pass(seconds) {
    const end = this.time + seconds * 1000;
    await settled();
    for (;;) {
      const due = [...this.#timers].filter(([, { at }]) => at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.time = Math.max(this.time, due[1].at);
      due[1].call();
      await settled();
    }
    this.time = end;
  }
}

export class FakeTab {
  #changed = new Set();
  #isVisible = true;

  isVisible = () => this.#isVisible;

  subscribe = (changed) => {
    this.#changed.add(changed);
    return () => this.#changed.delete(changed);
  };

  show(isVisible) {
    this.#isVisible = isVisible;
    this.#changed.forEach((each) => each());
  }

  get watchers() {
    return this.#changed.size;
  }
}

/** A `fetch` with one answer for all: `{status, body, headers}`, an error, or a promise of one of them. */
export function fakeFetch(answer) {
  const sent = [];
  const fetch = async (url, options) => {
    sent.push({ url, ...options });
    const { status = 200, body = {}, headers = {} } = await answer;
    return new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers });
  };
  return { fetch, sent };
}
