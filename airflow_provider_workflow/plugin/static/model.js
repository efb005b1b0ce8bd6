// What the page shows, as pure functions.

export const COUNTED = ["available", "leased", "quarantined"];
export const DROPPED = "Events are dropped while paused";
const MAX_CAUSES = 5;

// The service chooses the keys: no table has a prototype.
const STATES = {
  __proto__: null,
  active: ["active", "success"],
  paused: ["paused", "orange"],
  initialization_failure: ["setup failed", "failed"],
  missing: ["missing", "failed"],
};

export function describeState({ status = "unknown", paused_text: text, is_alarm: isAlarm }) {
  const [label, palette] = isAlarm && status === "paused"
    ? ["paused by the service", "failed"] : STATES[status] ?? [status, "gray"];
  return { label, palette, why: text ?? "" };
}

// What a row of the list may say of its inbox, with the color: the worst first.
const ROW_STATES = new Map([
  ["missing", "failed"], ["setup failed", "failed"], ["paused by the service", "failed"],
  ["listener failed", "failed"], ["no listener", "orange"], ["listener paused", "orange"],
  ["quarantined", "failed"], ["dead letters", "failed"], ["paused", "orange"],
]);

/** What matters most of an inbox, a cause before what follows from it: `{label, palette, why}`. */
export function rowState(inbox, counts) {
  const { status, is_alarm: isAlarm, listeners = [], no_listener: noListener, runs } = inbox;
  const own = describeState(inbox);
  const is = (label, why) => ({ label, palette: ROW_STATES.get(label) ?? own.palette, why });
  const failed = listeners.find((it) => it.last_run?.state === "failed");
  if (status === "missing") return is("missing", "The inbox does not exist");
  if (isAlarm) return own;
  if (failed) return is("listener failed", `The last run of ${failed.dag_id} failed`);
  if (noListener) return is("no listener", noListener);
  if (listeners.length && listeners.every((it) => it.is_paused)) {
    return is("listener paused", "Its DAG is paused: it starts no runs");
  }
  if (counts?.quarantined) return is("quarantined", "Not delivered again");
  if (runs?.dead_letter) return is("dead letters", "");
  return own;
}

/** Inboxes with their states, those that need a user to act on top; `known` is the last summary of each. */
export function rowsOf(inboxes, summaryOf) {
  const rows = inboxes.map((inbox) => {
    const known = summaryOf(inbox);
    const { label: stated, why } = rowState(inbox, known?.counts);
    return { ...inbox, known, stated, why };
  });
  return sortedBy(sortedBy(rows, titleOf), rankOf);
}

/** The place of the state of a row: one that is not known goes before "active". */
export function rankOf({ stated }) {
  const rank = [...ROW_STATES.keys()].indexOf(stated);
  return rank >= 0 ? rank : ROW_STATES.size + (stated === "active" ? 1 : 0);
}

const VERBS = { __proto__: null, active: "Pause", paused: "Resume" };

export const verbOf = ({ status }) => VERBS[status];

// The color shows the message; the state of its run has a badge of its own.
const MESSAGE_PALETTES = {
  __proto__: null, available: "blue", leased: "running", quarantined: "failed", "dead-lettered": "failed" };

export const paletteOf = (status) => MESSAGE_PALETTES[status] ?? "gray";

export const titleOf = (inbox) => inbox.name || inbox.id;

export const isId = (inbox) => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(inbox);

/** The command line shows as much of an id. */
export const shortId = (id) => (isId(id) ? id.slice(0, 8) : id);

/** That the run of a dead letter succeeded is no success of its message. */
export const paletteOfRun = (state, isDead) => (isDead && state === "success" ? "gray" : state);

// Times and numbers

const UNITS = { year: 31536000, month: 2592000, day: 86400, hour: 3600, minute: 60, second: 1 };
const formats = {};

// Making a formatter takes long.
const format = (kind, locale, options) => (formats[kind + locale] ??= new Intl[kind](locale, options));

export function localeOf(language) {
  try {
    return Intl.getCanonicalLocales(language || "en")[0];
  } catch {
    return "en";
  }
}

export function relativeTime(time, now, locale) {
  const seconds = Math.min(0, Math.round((Date.parse(time) - now) / 1000));
  if (Number.isNaN(seconds)) return "";
  const unit = Object.keys(UNITS).find((name) => Math.abs(seconds) >= UNITS[name]) ?? "second";
  return format("RelativeTimeFormat", locale, { numeric: "auto" })
    .format(Math.trunc(seconds / UNITS[unit]), unit);
}

export const absoluteTime = (time, locale) =>
  format("DateTimeFormat", locale, { dateStyle: "medium", timeStyle: "long" }).format(Date.parse(time));

export const number = (value, locale) => format("NumberFormat", locale).format(value);

export const countText = (count, isPartial, locale) =>
  typeof count === "number" ? number(count, locale) + (isPartial ? "+" : "") : "–";

/** `1 message`, `2 messages`; `what` is the plural. */
export const counted = (count, what) =>
  `${count} ${String(count) === "1" ? what.replace(/(?<=x)es$|s$/, "") : what}`;

const RUNS = ["failed", "dead_letter", "running", "queued", "success"];

/** What happened in the last hour, the worst first: `[state, text]` of each. */
export const recentRuns = (runs, locale) =>
  [...new Set([...RUNS, ...Object.keys(runs)])].filter((state) => runs[state]).map((state) => [
    state,
    state === "dead_letter"
      ? counted(number(runs[state], locale), "dead letters")
      : `${number(runs[state], locale)} ${state}`,
  ]);

/** Confs name the inbox of a run, and a sender chooses their size. */
export const uncounted = (runs) =>
  runs
    ? `Not counted: ${counted(runs, "DAG runs")} of the last hour with a conf larger than 1 MB,`
      + " of this inbox or others."
    : "";

// Messages

/** Why a message has no DAG run yet; "" where it has one. */
export function whyWaiting(
  { status, run, dead_letter: deadLetter, delivery_count: deliveries = 0 }, { listeners = [] }) {
  if (run || deadLetter) return "";
  if (status === "quarantined") {
    return `The service delivered it ${counted(deliveries, "times")} without an acknowledgement,`
      + " and does not deliver it again.";
  }
  if (status === "leased") {
    return "A task has leased it, and starts its DAG run now."
      + " If that task ended, it is redelivered when its lease ends.";
  }
  if (!listeners.length) return "No DAG listens to this inbox.";
  if (listeners.every((listener) => listener.is_paused)) return "The listening DAG is paused.";
  if (deliveries) {
    return "It was delivered, and no DAG run was started: the log of the listener's task has the reason.";
  }
  return "The listener has not leased it yet:"
    + " it may be busy with others, or wait until fewer DAG runs are unfinished.";
}

// A listener names its dead-letter DAG, or leaves messages to the service, which quarantines them.
const WARN_FROM = 3;
const LAST_SAFE = 4;

/** What follows for a message with many deliveries and no DAG run: `{palette, next, text}`, or null. */
export function afterDeliveries(
  { status, run, dead_letter: deadLetter, delivery_count: deliveries }, { listeners = [] }) {
  if (run || deadLetter || deliveries < WARN_FROM) return null;
  if (status === "quarantined") return { palette: "failed", next: "", text: "" };
  const isLast = deliveries >= LAST_SAFE;
  const palette = isLast ? "failed" : "orange";
  const dags = listeners.flatMap(({ tasks = [] }) => tasks.map((task) => task.dead_letter_dag_id));
  const named = [...new Set(dags)].filter(Boolean).join(" or ");
  if (named) {
    const text = isLast
      ? `On its next delivery it becomes a dead letter of ${named}.`
      : `If its next delivery is rejected too, it becomes a dead letter of ${named}.`;
    return {
      palette, next: "then a dead letter", text: `${text} One that no route takes may be quarantined.` };
  }
  const when = isLast ? "If its next delivery" : "If one or two more deliveries";
  return {
    palette, next: "then quarantine",
    text: `${when} ${isLast ? "starts" : "start"} no DAG run, the service quarantines it: nothing delivers it`
      + " again, and its payload cannot be read. A dead_letter_dag_id keeps such messages.",
  };
}

/** The tasks whose log may say why a message has no DAG run. */
export const tasksToBlame = (message, { listeners = [] }) =>
  message.run || message.dead_letter || !message.delivery_count || message.status === "leased" ? []
    : listeners.flatMap(({ dag_id, tasks = [] }) => tasks.map(({ task_id }) => ({ dag_id, task_id })));

const pathTo = (...names) => `/${names.map(encodeURIComponent).join("/")}`;

const pathOfRun = (dag, run) => pathTo("dags", dag, "runs", run);

/** The path of the page with the log of a task; `map_index` is -1 of one that is not mapped. */
export const pathOfTask = ({ dag_id: dag, dag_run_id: run, task_id: task, map_index: index }) =>
  pathOfRun(dag, run) + pathTo("tasks", task, ...(index >= 0 ? ["mapped", index] : []));

/** A number that would lose digits keeps them, where the browser can; others stay numbers to count with. */
const exact = (_, value, context) =>
  typeof value === "number" && context && JSON.rawJSON && String(value) !== context.source
    ? JSON.rawJSON(context.source) : value;

export const parsed = (text) => JSON.parse(text, exact);

function decoded(text) {
  try {
    return parsed(text);
  } catch {
    return null;
  }
}

/** What the conf of a DAG run has of its message, as texts: `payload` alone, and the `whole` of it. */
export function contentOf(conf) {
  const { message_json: json, message: own } = conf ?? {};
  const message = json === undefined ? own : decoded(json);
  if (!message) return { payload: json ?? "", whole: "" };
  const whole = JSON.stringify(message, null, 2);
  if (message.payload_object) {
    const { payload_object: object, payload_bytes: bytes, payload_sha256: digest } = message;
    return { payload: `In the payload store: ${object}\n${bytes} bytes, SHA-256 ${digest}`, whole };
  }
  return { payload: message.payload_json ?? JSON.stringify(message.payload ?? null, null, 2), whole };
}

const OUTCOMES = {
  started: "DAG runs", repeated: "repeated", existing: "with a run from before",
  dead_lettered: "dead letters", rejected: "rejected" };

/** What tasks that listen to an inbox counted, by the results that they returned, as XComs have them. */
export function outcomesOf(values, inboxId) {
  const results = values.map((value) => (typeof value === "string" ? decoded(value) : value))
    .filter((result) => result?.inbox_id === inboxId && result.started);
  if (!results.length) return "No counts of this inbox";
  const sum = (name) => results.reduce((total, result) => total + (Number(result[name]?.count) || 0), 0);
  const sums = Object.entries(OUTCOMES).map(([name, what]) => [sum(name), what]).filter(([count]) => count);
  const total = sums.reduce((all, [count]) => all + count, 0);
  return [counted(total, "messages"), ...sums.map(([count, what]) => counted(count, what))].join(", ");
}

/** Of DAG runs whose conf has a searched text, those of an inbox, as the page shows runs. */
export const runsOf = (runs, inboxId) =>
  runs.filter(({ conf }) => conf?.inbox_id === inboxId)
    .map(({ conf, dag_id, dag_run_id: run_id, state, run_after: at }) => ({
      dag_id, run_id, state, at, isDead: conf.message === undefined,
      message_id: conf.message?.id ?? conf.message_id ?? "", url: pathOfRun(dag_id, run_id) }));

/** What the schema rejected of dead letters that are to be replayed: `[sentence, ...causes]`, or nothing. */
export function refusals(letters) {
  const refused = letters.filter(({ reason }) => reason === "invalid");
  if (!refused.length) return [];
  const causes = [...new Set(refused.map(({ cause }) => cause ?? "no reason given"))];
  const what = letters.length === 1 ? "this message" : `${refused.length} of ${letters.length} messages`;
  return [
    `The schema rejected ${what}. A replay does not check it again: the DAG gets the same payload.`,
    ...causes.slice(0, MAX_CAUSES),
    ...(causes.length > MAX_CAUSES ? [`and ${causes.length - MAX_CAUSES} other causes`] : []),
  ];
}

/** The targets of several dead letters, each with the DAG that has them: `[text, count]`. */
export const targetsOf = (letters) =>
  Object.entries(letters.map(({ target_dag_id: target, dag_id: dag }) => `${target} (dead letters of ${dag})`)
    .reduce((counts, text) => ({ ...counts, [text]: (counts[text] ?? 0) + 1 }), {}));

/** The dead letters that a list leaves out, in words. */
export const unlisted = ({ large_runs: large, unnamed_dags: dags = [] }) => [
  large && `${counted(large, "dead letters")} with a conf larger than 1 MB, of this inbox or others:`
    + " see airflow-workflow dead-letters list.",
  dags.length && `dead letters of ${dags.map((dag) => dag.dag_id).join(", ")},`
    + " which no listener of their inbox names as dead_letter_dag_id:"
    + " see airflow-workflow dead-letters list --dag-id.",
].filter(Boolean).map((text) => `Not listed: ${text}`);

/** What a replay of several dead letters did; an outcome is a DAG run or a problem. */
export function replayed(count, outcomes) {
  const started = outcomes.filter((run) => run.run_id && run.outcome !== "existing").length;
  const existing = outcomes.filter((run) => run.outcome === "existing").length;
  const problem = outcomes.find((run) => !run.run_id);
  return [
    `${counted(started, "DAG runs")} started`,
    existing && `${existing} existed before`,
    started + existing < count
      && `${count - started - existing} not started: ${problem?.title ?? "canceled"}`,
  ].filter(Boolean).join(", ");
}

// Filters

const known = new WeakMap();

const stringsOf = (value) =>
  typeof value === "string"
    ? [value]
    : Object.entries(value ?? {}).flatMap(([key, part]) => (/url$|_at$/.test(key) ? [] : stringsOf(part)));

function textOf(item) {
  if (!known.has(item)) known.set(item, stringsOf(item).join("\n").toLowerCase());
  return known.get(item);
}

/** By what the filter by state finds an item: an inbox, a message or a dead letter. */
const statesOf = ({ stated, status, run, reason, replayed }) =>
  stated ? [stated]
    : [status, run?.state, reason, replayed === undefined ? "" : replayed ? "replayed" : "not replayed"];

export function filtered(items, { status, text }) {
  const searched = text.trim().toLowerCase();
  const has = (item) => !status || statesOf(item).includes(status);
  return items.filter((item) => has(item) && (!searched || textOf(item).includes(searched)));
}

/** What can be chosen, `first` in any case. */
export const statusesOf = (items, chosen, first = COUNTED) =>
  [...new Set([...first, ...items.flatMap(statesOf), chosen])].filter(Boolean);

const isEmpty = (value) => value === null || value === undefined || value === "";

/**
 * Items in the order of a column, those without a value last.
 *
 * @param columns `[title, width, cell, class, valueOf]` of each; one without the last is not sorted by.
 * @param sort the title of a column, with "-" before it for the largest first.
 */
export function sorted(items, columns, sort) {
  const valueOf = columns.find(([title]) => title === sort?.replace(/^-/, ""))?.[4];
  return valueOf ? sortedBy(items, valueOf, sort.startsWith("-") ? -1 : 1) : items;
}

/** Numbers in texts count as such: orders-9 goes before orders-10. */
const compared = (a, b) =>
  (typeof a === "string" ? format("Collator", "en", { numeric: true }).compare(a, b) : (a > b) - (a < b));

function sortedBy(items, valueOf, sign = 1) {
  return items.map((item) => ({ item, value: valueOf(item) }))
    .sort(({ value: a }, { value: b }) => isEmpty(a) - isEmpty(b) || sign * compared(a, b))
    .map(({ item }) => item);
}

export function merged(old, added, keyOf) {
  const all = new Map([...old, ...added].map((item) => [keyOf(item), item]));
  return [...all.values()];
}

/** The rows in sight and some around them. Sizes in pixels. */
export function windowOf({ count, rowHeight, top, height, around = 8 }) {
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + around);
  const first = Math.max(0, Math.min(Math.floor(top / rowHeight) - around, last - 1));
  return { first, last };
}

/** The order after a click on the title of a column: ascending, descending, as it came. */
export const nextSort = (title, sort) =>
  (sort === title ? `-${title}` : sort === `-${title}` ? "" : title);

/** As `aria-sort` has it; undefined of a column that the list is not sorted by. */
export const orderOf = (title, sort) =>
  (sort === title ? "ascending" : sort === `-${title}` ? "descending" : undefined);

// The URL

const START = { connection: "", inbox: "", tab: "messages", status: "", text: "", message: "", sort: "" };

export function placeOf(query) {
  const params = new URLSearchParams(query);
  return Object.fromEntries(Object.keys(START).map((key) => [key, params.get(key) ?? START[key]]));
}

/** Parameters of others stay. */
export function queryOf(place, current = "") {
  const query = new URLSearchParams(current);
  for (const key of Object.keys(START)) {
    query.delete(key);
    if (place[key] && place[key] !== START[key]) query.set(key, place[key]);
  }
  return query.toString();
}

/** A path of this Airflow; null for whatever else a link might be. */
export const safePath = (url) => (/^\/(?![/\\])/.test(url ?? "") ? url : null);
