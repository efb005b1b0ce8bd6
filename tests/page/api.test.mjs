import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";

import { Feed, Problem, createClient, limited, nextDelay } from "../../airflow_provider_workflow/plugin/static/api.js";
import { FakeClock, FakeTab, fakeFetch, settled } from "./fakes.mjs";

const ROOT = "http://host/airflow/";

describe("the client", () => {
  const clock = new FakeClock();
  const open = (answer) => {
    const { fetch, sent } = fakeFetch(answer);
    return { client: createClient({ root: ROOT, fetch, clock }), sent };
  };
  const problem = async (answer) => {
    try {
      await open(answer).client.get(["connections"]);
    } catch (error) {
      return error;
    }
    return assert.fail("no problem");
  };

  test("asks below the base path of Airflow, with names encoded", async () => {
    const { client, sent } = open({});
    await client.get(["connections"]);
    await client.get(["connections", "a/b", "inboxes"], "c=1&d");
    await client.get(["dags", "ü", "runs", "workflow__a+b/c", "message"], null);
    assert.deepEqual(sent.map((each) => each.url.replace(`${ROOT}workflow/api/`, "")), [
      "connections", "connections/a%2Fb/inboxes?cursor=c%3D1%26d", "dags/%C3%BC/runs/workflow__a%2Bb%2Fc/message",
    ]);
    assert.ok(sent.every((each) => each.method === undefined));
  });

  test("asks Airflow's own API, with several values of a name", async () => {
    const { client, sent } = open({});
    await client.airflow(["dags", "~", "dagRuns"], [["state", "failed"], ["state", "a b"]]);
    await client.airflow(["dags", "d", "dagRuns", "r+1"], null);
    assert.deepEqual(sent.map((each) => each.url.replace(`${ROOT}api/v2/`, "")), [
      "dags/~/dagRuns?state=failed&state=a+b", "dags/d/dagRuns/r%2B1",
    ]);
  });

  test("changes something only with the headers that a form of another site cannot send", async () => {
    const { client, sent } = open({});
    await client.post(["i", "pause"], {});
    await client.post(["i", "dead-letters", "replay"], { reason: "fixed" });
    assert.deepEqual(sent.map((each) => each.url.replace(`${ROOT}workflow/api/`, "")), ["i/pause", "i/dead-letters/replay"]);
    for (const { method, headers } of sent) {
      assert.deepEqual([method, headers["Content-Type"], headers["X-Workflow-Page"]], ["POST", "application/json", "1"]);
    }
    assert.deepEqual(JSON.parse(sent[1].body), { reason: "fixed" });
  });

  test("reports an error in the words of the API", async () => {
    const error = { code: "wrong_credentials", title: "The secret is wrong.", fix: "Correct it." };
    const { status, code, title, fix, isBusy } = await problem({ status: 502, body: { error } });
    assert.deepEqual({ status, code, title, fix, isBusy }, { status: 502, ...error, isBusy: false });
  });

  test("says in words what an error of Airflow means, and what to do", async () => {
    for (const [status, words, cure] of [
      [401, /You are not logged in/, /Log in/], [403, /does not allow/, /Ask an administrator/],
      [404, /is not there/, /restart the API server/], [500, /failed \(HTTP 500\)/, /Its log has the reason\./],
    ]) {
      const { title, fix } = await problem({ status, body: { detail: "Forbidden" } });
      assert.match(title, words);
      assert.match(fix, cure);
    }
  });

  test("says that the API server is away, or answers what is not JSON", async () => {
    assert.match((await problem(Promise.reject(new TypeError("Failed to fetch")))).title, /does not answer/);
    assert.equal((await problem({ body: "<html>" })).status, 502);
    assert.equal((await problem({ status: 503, body: "<html>" })).status, 503);
  });

  test("knows what passes by itself, and how long it takes", async () => {
    const busy = await problem({ status: 503, body: { error: { code: "busy", title: "", fix: "" } }, headers: { "Retry-After": "3" } });
    assert.deepEqual([busy.isBusy, busy.retryAfter], [true, 3]);
    assert.equal((await problem({ status: 429, headers: { "Retry-After": "3000" } })).retryAfter, 3000);
    assert.equal((await problem({ status: 429, headers: { "Retry-After": "99999" } })).retryAfter, 3600);
    assert.equal((await problem({ status: 429, headers: { "Retry-After": "soon" } })).retryAfter, 0);
  });

  test("gives up after 30 seconds, and when it is told to", async () => {
    const fetch = (url, { signal }) => new Promise((resolve, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
    const fetchUnless = async (url, { signal }) => signal.throwIfAborted() ?? new Response("{}");
    const client = createClient({ root: ROOT, fetch, clock });
    const failed = assert.rejects(client.get(["connections"]), Problem);
    await clock.pass(30);
    await failed;
    const control = new AbortController();
    const stopped = assert.rejects(client.get(["connections"], null, control.signal), Problem);
    control.abort();
    await stopped;
    await assert.rejects(createClient({ root: ROOT, fetch: fetchUnless, clock }).get([], null, control.signal), Problem);
    assert.equal(clock.waiting, 0);
  });
});

test("the wait grows with failures to five minutes, and is never shorter than the server asks", () => {
  const waits = [0, 1, 2, 5, 20].map((failures) => nextDelay({ interval: 10, failures }));
  assert.deepEqual(waits, [10, 20, 40, 300, 300]);
  assert.equal(nextDelay({ interval: 10, failures: 1, retryAfter: 60 }), 60);
  assert.equal(nextDelay({ interval: 10, failures: 1, retryAfter: 1 }), 20);
});

test("only so many calls run at once, and a failed one stops no other", async () => {
  const started = [];
  const ends = [];
  const call = limited(2, (name) => {
    started.push(name);
    return new Promise((resolve, reject) => ends.push({ resolve, reject }));
  });
  const [first, second, third, last] = ["a", "b", "c", "d"].map(call);
  await settled();
  assert.deepEqual(started, ["a", "b"]);
  ends[0].reject(new Error("a"));
  await assert.rejects(first);
  await settled();
  assert.deepEqual(started, ["a", "b", "c"]);
  ends[1].resolve(1);
  ends[2].resolve(2);
  await settled();
  ends[3].resolve(3);
  assert.deepEqual(await Promise.all([second, third, last]), [1, 2, 3]);
});

describe("a feed", () => {
  let clock, tab, answers, asked, feed;
  const busy = (retryAfter) => new Problem(503, { error: { code: "busy", title: "", fix: "" } }, retryAfter);
  const page = (...ids) => ({ items: ids.map((id) => ({ id })), next: null, fetched_at: "2026-11-23T12:00:00Z" });
  const ids = () => feed.get().items.map((each) => each.id).join("");

  beforeEach(() => {
    [clock, tab, answers, asked] = [new FakeClock(), new FakeTab(), [], []];
    const load = async (cursor, signal) => {
      asked.push({ cursor, signal, at: (clock.now() - Date.parse("2026-11-23T12:00:00Z")) / 1000 });
      const answer = await (answers.shift() ?? page("a"));
      if (answer instanceof Error) throw answer;
      return answer;
    };
    feed = new Feed({ load, clock, visibility: tab, name: "items" });
  });
  const times = () => asked.map((each) => each.at);
  const startFor = async (seconds) => {
    feed.start();
    await clock.pass(seconds);
  };

  test("loads at once and every ten seconds", async () => {
    await startFor(25);
    assert.deepEqual(times(), [0, 10, 20]);
    assert.equal(ids(), "a");
  });

  test("asks for nothing while the tab is hidden, and at once when it is seen again", async () => {
    await startFor(5);
    tab.show(false);
    await clock.pass(100);
    tab.show(true);
    await clock.pass(0);
    assert.deepEqual(times(), [0, 105]);
    feed.stop();
    tab.show(false);
    await startFor(60);
    assert.deepEqual(times(), [0, 105], "it starts hidden");
  });

  test("does not ask earlier because the tab was hidden for a moment", async () => {
    await startFor(5);
    tab.show(false);
    tab.show(true);
    await clock.pass(6);
    assert.deepEqual(times(), [0, 10]);
  });

  test("keeps its data when a request fails, and asks less often", async () => {
    answers = [page("a"), new TypeError("fetch"), new TypeError("fetch"), page("b")];
    await startFor(11);
    assert.equal(ids(), "a");
    assert.match(feed.get().problem.title, /does not answer/);
    await clock.pass(100);
    assert.deepEqual(times().slice(0, 5), [0, 10, 30, 70, 80]);
    assert.equal(feed.get().problem, null);
  });

  test("obeys Retry-After", async () => {
    answers = [new Problem(429, null, 45)];
    await startFor(50);
    assert.deepEqual(times(), [0, 45]);
  });

  test("tries a busy server again within seconds", async () => {
    answers = [busy(1), busy(1)];
    await startFor(8);
    assert.deepEqual(times(), [0, 2, 6]);
  });

  test("stops without a trace", async () => {
    answers = [new Promise(() => {})];
    await startFor(1);
    feed.stop();
    assert.ok(asked[0].signal.aborted);
    await clock.pass(100);
    assert.deepEqual([times(), clock.waiting, tab.watchers], [[0], 0, 0]);
  });

  test("ignores the late answer of a request that was given up", async () => {
    let late;
    answers = [new Promise((resolve) => (late = resolve)), page("new")];
    await startFor(0);
    await feed.refresh();
    late(page("old"));
    await settled();
    assert.equal(ids(), "new");
  });

  test("can start again after it stopped, as React does it", async () => {
    feed.start();
    feed.stop();
    await startFor(11);
    assert.deepEqual(times(), [0, 10]);
    feed.stop();
    await startFor(0);
    assert.deepEqual(times(), [0, 10], "the data are one second old");
    await clock.pass(9);
    assert.deepEqual(times(), [0, 10, 20]);
  });

  test("tells its subscribers of each change, and no longer who left", async () => {
    let count = 0;
    const leave = feed.subscribe(() => (count += 1));
    await feed.refresh();
    assert.ok(count > 1);
    leave();
    const before = count;
    await feed.refresh();
    assert.equal(count, before);
  });

  test("gives the same state until something changes", async () => {
    await feed.refresh();
    assert.equal(feed.get(), feed.get());
  });

  test("knows by how much the clocks differ", async () => {
    clock.time -= 3600000;
    await feed.refresh();
    assert.equal(feed.get().skew, 3600000);
  });

  test("loads all that follows, once each, and then no more by itself", async () => {
    answers = [{ ...page("a", "b"), next: "1", findings: ["a"] }, { ...page("b", "c"), next: "2" }, page("d")];
    await startFor(1);
    await feed.loadAll();
    assert.equal(ids(), "abcd");
    assert.deepEqual(feed.get().findings, ["a"], "the banner keeps its lines");
    assert.deepEqual(asked.map((each) => each.cursor), [null, "1", "2"]);
    await clock.pass(100);
    assert.equal(asked.length, 3);
    answers = [page("e")];
    await feed.refresh();
    assert.equal(ids(), "e");
    await clock.pass(10);
    assert.equal(asked.length, 5);
  });

  test("loads the first answer again for who comes back later to all of them", async () => {
    answers = [{ ...page("a"), next: "1" }, page("b"), page("c")];
    await startFor(0);
    await feed.loadAll();
    feed.stop();
    await startFor(5);
    assert.equal(ids(), "ab", "the data are seconds old");
    feed.stop();
    await clock.pass(10);
    await startFor(0);
    assert.equal(ids(), "c");
  });

  test("takes over a newer answer that came with another one, and waits from then on", async () => {
    feed.isSeeded = true;
    feed.start();
    feed.seed({ ...page("s"), fetched_at: "2026-11-23T12:00:01Z" });
    await clock.pass(20);
    assert.deepEqual([ids(), times()], ["s", []]);
    feed.seed({ ...page("old"), fetched_at: "2026-11-23T12:00:00Z" });
    feed.seed({ ...page("same"), fetched_at: "2026-11-23T12:00:01Z" });
    assert.equal(ids(), "s");
    await clock.pass(2);
    assert.deepEqual([ids(), times()], ["a", [21]]);
  });

  test("is asked for by one of many browsers, whose lists come every 10 s", async () => {
    let kept = null;
    const load = async () => {
      asked.push({ at: clock.time });
      kept ??= { ...page("a"), fetched_at: new Date(clock.time).toISOString() };
      return kept;
    };
    const browsers = Array.from({ length: 10 }, () => new Feed({ load, clock, visibility: tab, interval: 30, isSeeded: true }));
    // As at a start all at once, when the first answer takes a while.
    browsers.forEach((each) => each.start());
    await clock.pass(1);
    assert.equal(asked.length, 10);
    for (let second = 0; second < 300; second += 1) {
      if (kept && clock.time - Date.parse(kept.fetched_at) >= 10000) kept = null;
      browsers[second % 10].seed(kept);
      await clock.pass(1);
    }
    assert.ok(asked.length <= 20, `${asked.length}`);
    assert.ok(asked.length >= 16);
  });

  test("does not wait for a list that does not come", async () => {
    feed.isSeeded = true;
    feed.interval = 30;
    await startFor(84);
    assert.deepEqual(times(), [0.1, 41.1, 82.1]);
  });

  test("asks for what a list lacks only when it is old, and not while it waits after a failure", async () => {
    answers = [page("a"), new TypeError("fetch"), page("b")];
    feed.isSeeded = true;
    await startFor(5);
    feed.seed(null);
    await clock.pass(3);
    assert.deepEqual(times(), [0.1]);
    await clock.pass(3);
    feed.seed(null);
    await clock.pass(1);
    assert.deepEqual(times(), [0.1, 11.1]);
    await clock.pass(10);
    feed.seed(null);
    await clock.pass(5);
    assert.deepEqual(times(), [0.1, 11.1]);
    await clock.pass(5);
    assert.equal(ids(), "b");
  });

  test("waits after an answer that came before it started", async () => {
    feed.seed({ ...page("s"), fetched_at: "2026-11-23T12:00:01Z" });
    await clock.pass(3);
    await startFor(17);
    assert.deepEqual(times(), []);
    await clock.pass(2);
    assert.deepEqual([ids(), times()], ["a", [21]]);
  });

  test("forgets its problem when a newer answer comes with another one", async () => {
    answers = [new TypeError("fetch"), page("b")];
    await startFor(5);
    feed.seed({ ...page("s"), fetched_at: "2026-11-23T12:00:01Z" });
    assert.deepEqual([ids(), feed.get().problem], ["s", null]);
    await clock.pass(21);
    assert.deepEqual([ids(), times()], ["b", [0, 26]]);
  });

  test("shows the result of a change until the answers from before are too old", async () => {
    answers = [page("a", "b"), page("c")];
    await startFor(0);
    feed.replace({ id: "b", status: "paused" });
    assert.equal(ids(), "ab");
    assert.equal(feed.get().items[1].status, "paused");
    await clock.pass(10.9);
    feed.seed({ ...page("a", "b"), fetched_at: "2026-11-23T12:00:10Z" });
    assert.equal(feed.get().items[1].status, "paused");
    await clock.pass(0.2);
    assert.equal(ids(), "c");
    feed.seed({ ...page("d"), fetched_at: "2026-11-23T12:00:20Z" });
    assert.equal(ids(), "d");
  });

  test("does not ask for what is gone at once", async () => {
    feed.isSeeded = true;
    await startFor(0.09);
    feed.stop();
    await startFor(0.11);
    assert.deepEqual(times(), [0.19]);
  });

  test("loads no more than the limit", async () => {
    answers = [{ ...page("a"), next: "1" }, { ...page("b"), next: "2" }, { ...page("c"), next: "3" }];
    await feed.refresh();
    await feed.loadAll(2);
    assert.equal(ids(), "ab");
    assert.equal(feed.get().isLoadingAll, false);
  });

  test("waits for a busy server while it loads all", async () => {
    answers = [{ ...page("a"), next: "1" }, busy(3), page("b")];
    await feed.refresh();
    const all = feed.loadAll();
    await clock.pass(3);
    await all;
    assert.equal(ids(), "ab");
    assert.deepEqual(times(), [0, 0, 3]);
  });

  test("stops loading all at an error, and keeps what it has", async () => {
    answers = [{ ...page("a"), next: "1" }, new Problem(502, null)];
    await feed.refresh();
    await feed.loadAll();
    assert.equal(ids(), "a");
    assert.deepEqual([feed.get().problem.status, feed.get().isLoadingAll, feed.get().next], [502, false, "1"]);
  });

  test("stops loading all when the first answer is wanted again", async () => {
    let late;
    answers = [{ ...page("a"), next: "1" }, new Promise((resolve) => (late = resolve)), page("b")];
    await feed.refresh();
    const all = feed.loadAll();
    await settled();
    await feed.refresh();
    late({ ...page("z"), next: "2" });
    await all;
    assert.equal(ids(), "b");
    assert.equal(asked.length, 3);
  });
});
