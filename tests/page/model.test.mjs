import assert from "node:assert/strict";
import { test } from "node:test";

import * as model from "../../airflow_provider_workflow/plugin/static/model.js";

const NOW = Date.parse("2026-11-23T12:00:00Z");
const ago = (seconds) => new Date(NOW - seconds * 1000).toISOString();

test("the state of an inbox is said in words, with the reason of a pause", () => {
  const { label, palette, why } = model.describeState({ status: "paused", paused_text: "The login expired." });
  assert.deepEqual([label, palette, why], ["paused", "orange", "The login expired."]);
  const { label: byService, palette: color } = model.describeState({ status: "paused", is_alarm: true });
  assert.deepEqual([byService, color], ["paused by the service", "failed"]);
  assert.equal(model.describeState({ status: "active", paused_text: null }).why, "");
  assert.equal(model.describeState({ status: "paused", paused_text: null }).why, "");
  assert.equal(model.describeState({ status: "initialization_failure", paused_text: "delete it" }).why, "delete it");
});

const run = (state) => ({ dag_id: "handle", last_run: { state } });
const alarm = { is_alarm: true, paused_text: "paused (abandoned): new events are dropped" };
const sound = { id: "i", name: "n", status: "active", listeners: [run("success")], runs: {} };
const ROWS = [
  [{ status: "missing", is_alarm: true, listeners: [run("failed")] }, "missing"],
  [{ status: "initialization_failure", ...alarm }, "setup failed"],
  [{ status: "paused", ...alarm, listeners: [run("failed")] }, "paused by the service"],
  [{ listeners: [run("success"), run("failed")], runs: { dead_letter: 1 } }, "listener failed"],
  [{ listeners: [], no_listener: "no DAG listens" }, "no listener"],
  [{ listeners: [{ is_paused: true }] }, "listener paused"],
  [{ runs: { dead_letter: 1 }, summary: { counts: { quarantined: 2 } } }, "quarantined"],
  [{ runs: { dead_letter: 1, success: 9 } }, "dead letters"],
  [{ status: "paused", is_alarm: false }, "paused"],
  [{ status: "resting" }, "resting"],
  [{ runs: null, listeners: [{ is_paused: true }, run("success")] }, "active"],
].map(([changes, state]) => [{ ...sound, ...changes }, state]);

test("a row says what matters most of its inbox, and those that need a user to act are on top", () => {
  const rows = model.rowsOf(ROWS.map(([inbox]) => inbox).reverse(), (inbox) => inbox.summary);
  assert.deepEqual(rows.map((row) => row.stated), ROWS.map(([, state]) => state));
  assert.deepEqual(model.statusesOf(rows, "chosen", []), [...ROWS.map(([, state]) => state), "chosen"]);
});

test("only an inbox without anything to do is green", () => {
  const green = ROWS.filter(([inbox]) => model.rowState(inbox, inbox.summary?.counts).palette === "success");
  assert.deepEqual(green.map(([, state]) => state), ["active"]);
});

test("rows of one state are in the order of their names", () => {
  const inboxes = ["orders-10", "orders-9", null, "alarms"].map((name, id) => ({ ...sound, name, id: `p${id}` }));
  assert.deepEqual(model.rowsOf(inboxes, () => null).map(model.titleOf), ["alarms", "orders-9", "orders-10", "p2"]);
});

test("a state that is not known is shown as it is", () => {
  assert.equal(model.describeState({ status: "resting" }).label, "resting");
  assert.equal(model.describeState({}).label, "unknown");
});

for (const status of ["constructor", "__proto__", "toString", "hasOwnProperty"]) {
  test(`a state called ${status} is only a text`, () => {
    assert.deepEqual(model.describeState({ status }), { label: status, palette: "gray", why: "" });
    assert.equal(model.paletteOf(status), "gray");
    assert.equal(model.verbOf({ status }), undefined);
  });
}

test("an inbox without a name goes by its id", () => {
  assert.equal(model.titleOf({ id: "1", name: null }), "1");
  assert.equal(model.titleOf({ id: "1", name: "orders" }), "orders");
});

for (const [seconds, text] of [
  [0, "now"], [59, "59 seconds ago"], [60, "1 minute ago"], [3599, "59 minutes ago"], [7200, "2 hours ago"],
  [86400, "yesterday"], [86400 * 45, "last month"], [86400 * 800, "2 years ago"], [-300, "now"],
]) {
  test(`a time ${seconds} seconds ago is "${text}"`, () => assert.equal(model.relativeTime(ago(seconds), NOW, "en"), text));
}

test("times and numbers are in the language of the user", () => {
  assert.equal(model.relativeTime(ago(300), NOW, "de"), "vor 5 Minuten");
  assert.equal(model.relativeTime(ago(300), NOW, "ja"), "5 分前");
  assert.equal(model.number(12345, "de"), "12.345");
  assert.match(model.absoluteTime(ago(0), "de"), /23\.11\.2026/);
});

test("an absent or broken time is empty", () => {
  for (const time of [null, undefined, "", "soon"]) assert.equal(model.relativeTime(time, NOW, "en"), "");
});

test("a language that is absent or wrong is English", () => {
  assert.equal(model.localeOf("zh-cn"), "zh-CN");
  for (const wrong of ["", undefined, "not a language", "en-US@posix"]) assert.equal(model.localeOf(wrong), "en");
});

test("a count says when it is partial or not known", () => {
  assert.equal(model.countText(0, false, "en"), "0");
  assert.equal(model.countText(5000, true, "en"), "5,000+");
  for (const count of [null, undefined]) assert.equal(model.countText(count, true, "en"), "–");
});

test("one of something is not several", () => {
  const texts = [["1", "inboxes"], [2, "inboxes"], [1, "messages"], [0, "dead letters"], ["1", "dead letters"]];
  assert.deepEqual(texts.map((each) => model.counted(...each)), ["1 inbox", "2 inboxes", "1 message", "0 dead letters", "1 dead letter"]);
});

test("the runs of the last hour are told by state, the worst first", () => {
  const runs = { success: 1234, running: 1, upstream_odd: 1, failed: 2, dead_letter: 1, queued: 0 };
  assert.deepEqual(model.recentRuns(runs, "en").map(([, text]) => text), [
    "2 failed", "1 dead letter", "1 running", "1,234 success", "1 upstream_odd",
  ]);
  assert.deepEqual(model.recentRuns({}, "en"), []);
});

const messages = [
  { id: "a", status: "available", error_message: null, created_at: "2026-01-01T00:00:00Z" },
  { id: "b", status: "leased", error_message: 'It said "Nein" <b>', run: { dag_id: "Über", run_id: "r", url: "/dags/hidden" } },
  { id: "c", status: "quarantined", error_message: "timeout" },
  { id: "d", status: "started", run: { dag_id: "handle", state: "failed" } },
];
const found = (status, text) => model.filtered(messages, { status, text }).map((each) => each.id).join("");

test("messages are filtered by status and text", () => {
  assert.equal(found("", ""), "abcd");
  assert.equal(found("failed", ""), "d");
  assert.equal(found("leased", ""), "b");
  assert.equal(found("", "TIMEOUT"), "c");
  assert.equal(found("leased", "timeout"), "");
  assert.equal(found("", '  "nein" <b> '), "b");
  assert.equal(found("", "über"), "b");
});

test("dead letters are filtered by reason and by whether they were replayed", () => {
  const letters = [{ id: 1, reason: "invalid", replayed: null }, { id: 2, reason: "rejected", replayed: { state: "queued" } }];
  const ids = (status) => model.filtered(letters, { status, text: "" }).map(({ id }) => id);
  assert.deepEqual(["invalid", "rejected", "replayed", "not replayed", "other"].map(ids), [[1], [2], [2], [1], []]);
  assert.deepEqual(model.statusesOf(letters, "", []), ["invalid", "not replayed", "rejected", "replayed"]);
  assert.deepEqual(model.statusesOf([{ status: "active" }], "", []), ["active"]);
});

test("rows are sorted by numbers in names as such", () => {
  const names = (sort) => model.sorted([{ name: "n-10" }, { name: "n-9" }], [["Name", "", "", "", (it) => it.name]], sort).map((it) => it.name);
  assert.deepEqual([names("Name"), names("-Name")], [["n-9", "n-10"], ["n-10", "n-9"]]);
});

test("a list is sorted by a column, without a value last, and as it came by any other", () => {
  const columns = [["Name", "", () => "", "", (it) => it.name], ["Action", "", () => ""]];
  const items = [{ name: "b", n: 1 }, { name: null }, { name: "a" }, { name: "b", n: 2 }, {}];
  const names = (sort) => model.sorted(items, columns, sort).map(({ name, n }) => `${name}${n ?? ""}`);
  assert.deepEqual(names("Name"), ["a", "b1", "b2", "null", "undefined"]);
  assert.deepEqual(names("-Name"), ["b1", "b2", "a", "null", "undefined"]);
  for (const sort of ["", "Action", "Other", undefined]) assert.equal(model.sorted(items, columns, sort), items);
  const clicks = ["", "Name", "-Name", "Other", "constructor"].map((sort) => model.nextSort("Name", sort));
  assert.deepEqual(clicks, ["Name", "-Name", "", "Name", "Name"]);
  const orders = ["Name", "-Name", "constructor", ""].map((sort) => model.orderOf("Name", sort));
  assert.deepEqual(orders, ["ascending", "descending", undefined, undefined]);
});

test("a filter does not look into links and times", () => {
  assert.equal(found("", "hidden"), "");
  assert.equal(found("", "2026"), "");
});

test("inboxes are found by name, id, state and listening DAG", () => {
  const inbox = { id: "i1", name: "orders", status: "active", listeners: [{ dag_id: "handle_order", last_run: { state: "failed" } }] };
  const rows = model.rowsOf([inbox], () => null);
  for (const text of ["ORD", "i1", "listener fail", "handle_"]) assert.equal(model.filtered(rows, { text }).length, 1);
  assert.equal(model.filtered(rows, { text: "invoice" }).length, 0);
  assert.equal(model.filtered(rows, { text: "", status: "listener failed" }).length, 1);
  assert.equal(model.filtered(rows, { text: "", status: "active" }).length, 0, "it is not what the row says");
});

for (const [message, listeners, words] of [
  [{ status: "available" }, [], /No DAG listens/],
  [{ status: "available" }, [{ is_paused: true }], /listening DAG is paused/],
  [{ status: "available" }, [{ is_paused: true }, { is_paused: false }], /not leased it yet/],
  [{ status: "available", delivery_count: 2 }, [{ is_paused: false }], /log of the listener/],
  [{ status: "leased", delivery_count: 1 }, [{ is_paused: false }], /starts its DAG run now/],
  [{ status: "quarantined", delivery_count: 5 }, [{ is_paused: false }], /delivered it 5 times/],
  [{ status: "started", run: { state: "success" } }, [], /^$/],
  [{ status: "dead-lettered", dead_letter: {} }, [], /^$/],
]) {
  test(`why a message waits: ${words}`, () => assert.match(model.whyWaiting(message, { listeners }), words));
}

test("the payload is shown alone and indented, and the rest of its message on demand", () => {
  const { payload, whole } = model.contentOf({ message: { id: "m", payload: { a: 1 } } });
  assert.equal(payload, '{\n  "a": 1\n}');
  assert.match(whole, /"id": "m",\n {2}"payload": \{\n/);
  const payloadOf = (conf) => model.contentOf(conf).payload;
  assert.equal(payloadOf({ message: { payload: null, payload_json: "1e400" } }), "1e400");
  assert.equal(payloadOf({ message: {} }), "null");
  const stored = { payload: null, payload_object: "i/m/d.json", payload_bytes: 70, payload_sha256: "d" };
  for (const conf of [{ message: stored }, { message_json: JSON.stringify(stored) }]) {
    assert.match(payloadOf(conf), /^In the payload store: i.m.d.json\n70 bytes, SHA-256 d$/);
  }
  assert.deepEqual(model.contentOf(null), { payload: "", whole: "" });
});

test("a dead letter shows the payload of its message, or what its conf has instead of a message", () => {
  const { payload, whole } = model.contentOf({ message_json: '{"id": "m", "payload": {"a": [1]}}' });
  assert.equal(payload, '{\n  "a": [\n    1\n  ]\n}');
  assert.match(whole, /"id": "m"/);
  for (const json of ["{broken", "null"]) assert.deepEqual(model.contentOf({ message_json: json }), { payload: json, whole: "" });
});

for (const [count, status, dags, palette, next, text] of [
  [3, "available", ["dead"], "orange", "then a dead letter", /^If its next delivery is rejected too, it becomes a dead letter of dead\./],
  [4, "leased", ["dead", null, "dead"], "failed", "then a dead letter", /^On its next delivery it becomes a dead letter of dead\./],
  [4, "available", ["a", "b"], "failed", "then a dead letter", /dead letter of a or b\./],
  [3, "available", [null], "orange", "then quarantine", /^If one or two more deliveries start no DAG run, the service quarantines it/],
  [4, "available", [], "failed", "then quarantine", /^If its next delivery starts no DAG run, the service quarantines it/],
  [5, "quarantined", ["dead"], "failed", "", /^$/],
]) {
  test(`${count} deliveries of a message that is ${status} lead to "${next}" of ${dags}`, () => {
    const tasks = dags.map((dead_letter_dag_id) => ({ task_id: "t", dead_letter_dag_id }));
    const after = model.afterDeliveries({ status, delivery_count: count }, { listeners: [{ tasks }] });
    assert.deepEqual([after.palette, after.next], [palette, next]);
    assert.match(after.text, text);
  });
}

test("few deliveries, and those of a message with a run, lead to nothing", () => {
  assert.equal(model.afterDeliveries({ status: "available", delivery_count: 2 }, {}), null);
  assert.equal(model.afterDeliveries({ status: "started", delivery_count: 4, run: {} }, {}), null);
  assert.equal(model.afterDeliveries({ status: "available", delivery_count: 4, dead_letter: {} }, {}), null);
});

test("the log of each task that listens may say why a delivered message has no run", () => {
  const inbox = { listeners: [{ dag_id: "d", tasks: [{ task_id: "t" }] }, { dag_id: "watch", tasks: [] }, {}] };
  const tasks = (message) => model.tasksToBlame(message, inbox);
  assert.deepEqual(tasks({ status: "available", delivery_count: 1 }), [{ dag_id: "d", task_id: "t" }]);
  for (const other of [{ delivery_count: 0 }, { status: "leased", delivery_count: 1 }, { delivery_count: 1, run: {} }, { delivery_count: 1, dead_letter: {} }]) {
    assert.deepEqual(tasks(other), []);
  }
  const failed = { dag_id: "d/1", dag_run_id: "r+1", task_id: "t", map_index: -1 };
  assert.equal(model.pathOfTask(failed), "/dags/d%2F1/runs/r%2B1/tasks/t");
  assert.equal(model.pathOfTask({ ...failed, map_index: 0 }), "/dags/d%2F1/runs/r%2B1/tasks/t/mapped/0");
});

test("the results of listeners tell how many messages repeat a business key", () => {
  const result = (started, repeated, more = {}) => ({
    inbox_id: "i", started: { count: started }, repeated: { count: repeated }, existing: { count: 0 }, ...more });
  assert.equal(model.outcomesOf([result(1, 5)], "i"), "6 messages, 1 DAG run, 5 repeated");
  const values = [JSON.stringify(result(1, 0)), result(2, 1, { dead_lettered: { count: 1 } })];
  assert.equal(model.outcomesOf(values, "i"), "5 messages, 3 DAG runs, 1 repeated, 1 dead letter");
  assert.equal(model.outcomesOf([{ ...result(1, 0), inbox_id: "other" }], "i"), "No counts of this inbox");
  const others = [null, undefined, "a reference", 7, {}, { inbox_id: "i", processed: { count: 2 } }];
  assert.equal(model.outcomesOf(others, "i"), "No counts of this inbox");
  assert.equal(model.outcomesOf([result(0, 0)], "i"), "0 messages");
});

test("of the runs with a searched text those of the inbox are shown, and dead letters as such", () => {
  const run = { dag_id: "d/1", dag_run_id: "workflow__m", state: "success", run_after: "then" };
  const [own, dead, ...others] = model.runsOf([
    { ...run, conf: { inbox_id: "i", message: { id: "m" } } },
    { ...run, conf: { inbox_id: "i", message_id: "m2", message_json: "{}" } },
    { ...run, conf: { inbox_id: "other", message: { id: "m3" } } }, { ...run, conf: null },
  ], "i");
  assert.deepEqual(own, {
    dag_id: "d/1", run_id: "workflow__m", state: "success", at: "then", isDead: false, message_id: "m",
    url: "/dags/d%2F1/runs/workflow__m" });
  assert.deepEqual([dead.isDead, dead.message_id, others.length], [true, "m2", 0]);
});

test("what the schema rejected is said with the causes, and nothing of other dead letters", () => {
  const invalid = (cause) => ({ reason: "invalid", cause });
  const other = { reason: "rejected", cause: "a param is missing" };
  assert.deepEqual(model.refusals([other]), []);
  const [sentence, ...causes] = model.refusals([invalid("$.total: not a number")]);
  assert.match(sentence, /^The schema rejected this message\. A replay does not check it again/);
  assert.deepEqual(causes, ["$.total: not a number"]);
  assert.match(model.refusals([invalid("a"), other, invalid("a")])[0], /rejected 2 of 3 messages/);
  const many = model.refusals([..."abcdefg", "a"].map(invalid));
  assert.deepEqual(many.slice(1), ["a", "b", "c", "d", "e", "and 2 other causes"]);
});

test("the run of a dead letter that succeeded is no success", () => {
  assert.equal(model.paletteOfRun("success", true), "gray");
  assert.equal(model.paletteOfRun("success", false), "success");
  assert.equal(model.paletteOfRun("failed", true), "failed");
});

test("of a UUID its beginning is shown, and of another id all of it", () => {
  assert.equal(model.shortId("0b7e7f4e-2f0a-4c61-9a53-0d2f5b6f1c11"), "0b7e7f4e");
  assert.equal(model.shortId("order 1"), "order 1");
  assert.equal(model.shortId(null), null);
});

test("a replay of several dead letters says what became of all of them", () => {
  const [run, existing] = [{ run_id: "r", outcome: "started" }, { run_id: "r", outcome: "existing" }];
  assert.equal(model.replayed(2, [run, run]), "2 DAG runs started");
  assert.equal(model.replayed(4, [run, existing, { title: "no such DAG" }]), "1 DAG run started, 1 existed before, 2 not started: no such DAG");
  assert.equal(model.replayed(3, [run]), "1 DAG run started, 2 not started: canceled");
  const letters = [["a", "dead"], ["b", "dead"], ["a", "dead"], ["a", "other"]].map(([target_dag_id, dag_id]) => ({ target_dag_id, dag_id }));
  assert.deepEqual(model.targetsOf(letters), [["a (dead letters of dead)", 2], ["b (dead letters of dead)", 1], ["a (dead letters of other)", 1]]);
});

test("what a list leaves out is said", () => {
  assert.equal(model.uncounted(0), "");
  assert.match(model.uncounted(1), /^Not counted: 1 DAG run of the last hour with a conf larger than 1 MB/);
  assert.deepEqual(model.unlisted({ large_runs: 0, unnamed_dags: [] }), []);
  const [large, unnamed] = model.unlisted({ large_runs: 2, unnamed_dags: [{ dag_id: "a" }, { dag_id: "b" }] });
  assert.match(large, /^Not listed: 2 dead letters with a conf larger than 1 MB/);
  assert.match(unnamed, /^Not listed: dead letters of a, b, which no listener of their inbox names as dead_letter_dag_id/);
});

test("the chosen status can be chosen though no message has it", () => {
  const all = model.statusesOf([{ status: "started", run: { state: "failed" } }, {}], "odd");
  assert.deepEqual(all, ["available", "leased", "quarantined", "started", "failed", "odd"]);
});

test("entries of two answers are there once, in their order, as the later answer has them", () => {
  const all = model.merged([{ id: 1, v: "old" }, { id: 2 }], [{ id: 3 }, { id: 1, v: "new" }], (each) => each.id);
  assert.deepEqual(all, [{ id: 1, v: "new" }, { id: 2 }, { id: 3 }]);
});

test("all rows in sight are rendered, and few others", () => {
  for (const count of [0, 1, 7, 5000]) {
    for (let top = 0; top <= count * 40 + 400; top += 133) {
      const { first, last } = model.windowOf({ count, rowHeight: 40, top, height: 600, around: 8 });
      assert.ok(first >= 0 && last <= count && first <= last, `${count} ${top} ${first} ${last}`);
      assert.ok(last - first <= 600 / 40 + 17);
      for (let row = Math.floor(top / 40); row < Math.min(count, (top + 600) / 40); row += 1) {
        assert.ok(first <= row && row < last, `row ${row} of ${count} at ${top}`);
      }
    }
  }
});

test("a table that lost its rows below the position still shows some", () => {
  assert.deepEqual(model.windowOf({ count: 3, rowHeight: 40, top: 90000, height: 600 }), { first: 2, last: 3 });
});

test("a place goes into the URL and comes back, whatever its names have in them", () => {
  const place = { connection: 'a b&c="d"', inbox: "Ünï/码?#%", tab: "dead-letters", status: "leased", text: "<script> + 1", message: "a&b", sort: "-DAG runs, last hour" };
  assert.deepEqual(model.placeOf(model.queryOf(place)), place);
});

test("what is usual is not in the URL, and parameters of others stay", () => {
  const start = { connection: "", inbox: "", tab: "messages", status: "", text: "", message: "", sort: "" };
  assert.equal(model.queryOf(start), "");
  assert.equal(model.queryOf({ connection: "c" }, "theirs=1&inbox=old&text=x"), "theirs=1&connection=c");
  assert.deepEqual(model.placeOf("theirs=1"), start);
});

test("the id of an inbox is told from a name", () => {
  assert.ok(model.isId("00000000-0000-4000-8000-00000000000A"));
  for (const name of ["orders", "", "00000000-0000-4000-8000-00000000000", "00000000000040008000000000000000aaaa"]) assert.ok(!model.isId(name));
});

test("only paths of this Airflow become links", () => {
  assert.equal(model.safePath("/dags/x/runs/y"), "/dags/x/runs/y");
  for (const url of ["//evil.example", "/\\evil.example", "javascript:alert(1)", "https://evil.example", "", null, undefined]) {
    assert.equal(model.safePath(url), null);
  }
});
