// What the page shows, as pure functions.

export const COUNTED = ["available", "leased", "quarantined"];
export const DROPPED = "Events are dropped while paused";

// The service chooses the keys: no table has a prototype.
const STATES = {
  __proto__: null,
  active: ["active", "success"],
  paused: ["paused", "orange"],
  initialization_failure: ["setup failed", "failed"],
};

export function describeState({ status = "unknown", paused_text: text }) {
  const [label, palette] = STATES[status] ?? [status, "gray"];
  return { label, palette, why: text ?? "" };
}

const VERBS = { __proto__: null, active: "Pause", paused: "Resume" };

export const verbOf = ({ status }) => VERBS[status];

// The color shows the message; the state of its run has a badge of its own.
const MESSAGE_PALETTES = {
  __proto__: null, available: "blue", leased: "running", quarantined: "failed", "dead-lettered": "failed" };

export const paletteOf = (status) => MESSAGE_PALETTES[status] ?? "gray";

export const titleOf = (inbox) => inbox.name || inbox.id;

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

/** The payload in the conf of a DAG run that a message started; of a dead letter the whole message. */
export function payloadText(conf) {
  const { message, message_json: whole } = conf ?? {};
  if (message?.payload_object) {
    const { payload_object: object, payload_bytes: bytes, payload_sha256: digest } = message;
    return `In the payload store: ${object}\n${bytes} bytes, SHA-256 ${digest}`;
  }
  return whole ?? message?.payload_json ?? (message ? JSON.stringify(message.payload ?? null, null, 2) : "");
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
    + " which no listener names as dead_letter_dag_id: see airflow-workflow dead-letters list --dag-id.",
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

export function filtered(items, { status, text }) {
  const searched = text.trim().toLowerCase();
  const has = (item) => !status || item.status === status || item.run?.state === status;
  return items.filter((item) => has(item) && (!searched || textOf(item).includes(searched)));
}

export const statusesOf = (items, chosen) =>
  [...new Set([...COUNTED, ...items.flatMap((item) => [item.status, item.run?.state]), chosen])]
    .filter(Boolean);

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

// The URL

const START = { connection: "", inbox: "", tab: "messages", status: "", text: "", message: "" };

export function placeOf(query) {
  const params = new URLSearchParams(query);
  return Object.fromEntries(Object.keys(START).map((key) => [key, params.get(key) ?? START[key]]));
}

export const isId = (inbox) => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(inbox);

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
