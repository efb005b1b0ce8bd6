// The page "Inboxes", for Airflow's UI.

import { limited } from "./api.js";
import * as model from "./model.js";
import { STYLE, paint } from "./style.js";
import {
  Action, Badge, Button, Cut, Details, Dialog, Empty, Heading, Id, Link, Now, Run, Search, Select, Status,
  Table, Time, Trouble, Wrapped, client, h, knownAnswer, useFeed, useQuery,
} from "./widgets.js";

const { Fragment, useContext, useEffect, useMemo, useState } = globalThis.React;

const getSummary = limited(2, client.get);
const getResult = limited(2, client.airflow);
const pathOf = (connection, ...rest) => ["connections", connection, "inboxes", ...rest];

const DEFAULT = "workflow_default";
const PAUSE = `${model.DROPPED}: they do not arrive later. Messages in the inbox can still start DAG runs.`;
const RESUME = "New events arrive again; dropped ones do not come back.";
const MAX_TEXT_LENGTH = 20000;
const MAX_FINDINGS = 10;
const MAX_FOUND = 20;
const MAX_RESULTS = 20;
const REPLAY = "The DAG run gets the original run id: replaying twice starts one.";

function Frame({ feed, children }) {
  const [, tick] = useState();
  useEffect(() => {
    const timer = setInterval(() => tick({}), 5000);
    return () => clearInterval(timer);
  }, []);
  const value = { now: Date.now() + feed.skew, locale: model.localeOf(localStorage.i18nextLng) };
  return h(Now.Provider, { value }, h("div.root", { lang: "en" }, h("style", STYLE), children));
}

/** Transient problems are shown only without data, and others only once on a page. */
const Failure = ({ feed: [{ problem, answer }, feed], after = [] }) =>
  problem && !(problem.isBusy && answer)
    && !after.some((it) => it?.status === problem.status && it.code === problem.code)
    ? h(Trouble, { problem, retry: () => feed.refresh() },
      answer && h("span", "What is shown was loaded before."))
    : null;

function Listing({ what, feed: both, rows, place, go, empty, filter, after, ...table }) {
  const [{ items: loaded, answer, next, problem, pages, isLoadingAll }, feed] = both;
  const { columns } = table;
  const items = rows ?? loaded;
  const shown = useMemo(
    () => model.sorted(model.filtered(items, place), columns, place.sort), [items, columns, place]);
  const count = shown.length === items.length ? "" : `${shown.length} of `;
  return h(Fragment,
    h("div.bar",
      h(Search, { label: `Filter ${what}`, value: place.text, change: (text) => go({ text }) }), filter,
      h(Status, answer ? count + model.counted(items.length, what) : problem ? "" : `Loading ${what}…`),
      h("span.line.muted.small.push",
        answer && h("span", "Updated ", h(Time, { at: answer.fetched_at })),
        pages > 1 && "(refreshed on demand only)",
        problem?.isBusy && "Airflow is busy; trying again.",
        h(Button, { onClick: () => feed.refresh(), "aria-label": `Refresh ${what}` }, "Refresh"))),
    h(Failure, { feed: both, after }),
    next && h("div.line", h(Status, isLoadingAll ? "Loading more…" : `There are more ${what}.`),
      h(Button, { onClick: () => feed.loadAll(), disabled: isLoadingAll }, "Load up to 5,000")),
    shown.length ? h(Table, {
      label: what, items: shown, keyOf: feed.keyOf, sort: place.sort, setSort: (sort) => go({ sort }),
      ...table })
      : items.length ? h(Empty, { title: `No ${what} match the filter.` }, "Clear it to see all of them.")
      : answer && !problem && empty);
}

function State({ inbox }) {
  const { label, palette, why } = model.describeState(inbox);
  return h("div", h(Badge, { color: palette }, label), why && h("div.small", why));
}

/** Only the reason; what to do is in the banner, or on the page of the inbox. */
function RowState({ inbox, of }) {
  const { label, palette, why } = model.rowState(inbox, of.counts);
  return h("div", h(Badge, { color: palette }, label),
    why && h("div.small.two.wide", { title: why }, why.split(/[:;]/)[0]));
}

/** DAG runs of the last hour by state, with links. */
function Runs({ connection, inbox: { id, runs } }) {
  const { locale } = useContext(Now);
  const shown = model.recentRuns(runs ?? {}, locale);
  if (!shown.length) return runs ? h("span.muted", "none") : "–";
  const place = (state) => ({
    connection, inbox: id, ...(state === "dead_letter" ? { tab: "dead-letters" } : { status: state }) });
  const title = shown.map(([, text]) => text).join(", ");
  return h("div.bar.tight", { title }, shown.map(([state, text]) =>
    h(Link, { key: state, place: place(state) },
      h(Badge, { color: state === "dead_letter" ? "failed" : state }, text))));
}

/** How the last run of a listener ended, with a link to the log of the task that failed. */
function LastRun({ run }) {
  const { now, locale } = useContext(Now);
  const { state, url, dag_id: dag, ended_at: at } = run;
  const times = at ? `${model.relativeTime(at, now, locale)} (${model.absoluteTime(at, locale)})` : "";
  const name = state === "failed" ? `Log of the failed task of ${dag}` : `Last run of ${dag}: ${state}`;
  return h(Link, { url, title: `${name}, ${times}`, "aria-label": name }, h(Badge, { color: state }, state));
}

function Listeners({ inbox, most = 99 }) {
  const all = inbox.listeners ?? [];
  if (!all.length) return h("span.muted", inbox.no_listener ? "No DAG listens" : "–");
  const shown = all.slice(0, all.length > most ? most - 1 : most);
  return h(Fragment, shown.map(({ dag_id: id, url, is_paused: isPaused, last_run: run }) =>
    h("div.line", { key: id }, h(Link, { url, className: "wf-line" }, h(Cut, { text: id })),
      run && h(LastRun, { run }), isPaused && h(Badge, { color: "orange" }, "DAG paused"))),
    shown.length < all.length && h("span.muted.small", `and ${all.length - shown.length} more`));
}

/** What doctor would say, for those who look here. */
function Findings({ findings = [], connection }) {
  if (!findings.length) return null;
  const since = ({ inbox, dags: [dag], failing_since: at }) => at && h(Fragment, " (",
    inbox ? h(Link, { url: dag.url }, h("bdi", dag.dag_id)) : "it", " first failed ", h(Time, { at }), ")");
  const line = (finding) => {
    const { check, status, detail, fix, inbox, dags: [dag] } = finding;
    const to = inbox ? { place: { connection, inbox } } : { url: dag?.url };
    return h("div", { key: `${check} ${detail}` },
      h("strong", `${status}: `), h(Link, to, h("bdi", check)), ": ", h("bdi", detail), h(since, finding),
      h("div", h("bdi", `→ ${fix}`)));
  };
  const color = findings.some(({ status }) => status === "failed") ? "failed" : "orange";
  const more = findings.length - MAX_FINDINGS;
  return h("div.box", { role: "alert", style: paint(color) },
    h("strong", `${model.counted(findings.length, "problems")} to correct`),
    findings.slice(0, MAX_FINDINGS).map(line), more > 0 && h("span", `And ${more} more.`));
}

function useSummary(connection, inbox) {
  const path = inbox.status === "missing" ? [] : pathOf(connection, inbox.id, "summary");
  const [{ answer, problem }, feed] = useFeed(path, { interval: 30, isSeeded: true }, getSummary);
  useEffect(() => feed.seed(inbox.summary), [feed, inbox]);
  return { ...answer, summary: [{ answer, problem }, feed] };
}

/** A number of messages; nothing is to be seen where there is none. */
function Count({ connection, id, of, status }) {
  const { locale } = useContext(Now);
  const [{ problem }] = of.summary;
  const count = of.counts?.[status];
  if (count === undefined) {
    return h("span.muted.small", !id || (problem && !problem.isBusy) ? "–" : "counting…");
  }
  const text = model.countText(count, of.is_partial, locale);
  if (!count) return h("span.muted", text);
  return h(Link, { place: { connection, inbox: id, status } },
    status === "quarantined" ? h(Badge, { color: "failed" }, text) : text);
}

function Toggle({ inbox, ask }) {
  const verb = model.verbOf(inbox);
  return verb
    && h(Button, { onClick: () => ask(inbox), "aria-label": `${verb} ${model.titleOf(inbox)}` }, verb);
}

function ToggleDialog({ inbox, connection, close, done }) {
  const verb = model.verbOf(inbox);
  const act = async () => done(await client.post(pathOf(connection, inbox.id, verb.toLowerCase())));
  return h(Action, { title: `${verb} ${model.titleOf(inbox)}?`, verb: `${verb} inbox`, act, close },
    h("p", verb === "Pause" ? PAUSE : RESUME));
}

function InboxList({ connection, feed, place, go, ...rest }) {
  const [{ items }] = feed;
  const rows = useMemo(() => model.rowsOf(items, (inbox) =>
    knownAnswer(pathOf(connection, inbox.id, "summary")) ?? inbox.summary), [items, connection]);
  const columns = useMemo(() => {
    const count = (status) => ({ id }, of) => h(Count, { connection, id, of, status });
    const known = (status) => (row) => row.known?.counts[status];
    const all = ({ runs }) => Object.values(runs ?? {}).reduce((sum, number) => sum + number, 0);
    return [
      ["Inbox", "19%", (row) => h(row.id ? Link : "span", row.id && { place: { connection, inbox: row.id } },
        h(Cut, { text: model.titleOf(row), title: row.id })), "", model.titleOf],
      ["State", "17%", (inbox, of) => h(RowState, { inbox, of }), "mid", model.rankOf],
      ["Available", "6.5rem", count("available"), "num", known("available")],
      ["Leased", "5.5rem", count("leased"), "num.wide", known("leased")],
      ["Quarantined", "7.75rem", count("quarantined"), "num.wide", known("quarantined")],
      ["Oldest message", "9rem", (_, of) => h(Time, { at: of.oldest_created_at }), "wide",
        (row) => Date.parse(row.known?.oldest_created_at) || null],
      ["Listening DAGs", "26%", (inbox) => h(Listeners, { inbox, most: 2 }), "wide",
        ({ listeners: [first] }) => first?.dag_id],
      ["DAG runs, last hour", "13rem", (inbox) => h(Runs, { connection, inbox }), "mid", all],
    ];
  }, [connection]);
  const empty = h(Empty, { title: "This connection has no inboxes." },
    "Create one with `airflow-workflow inbox ensure`.");
  const filter = h(Select, {
    label: "State", value: place.status, options: ["", ...model.statusesOf(rows, place.status, [])],
    change: (status) => go({ status }) });
  return h(Listing, {
    what: "inboxes", feed, rows, place, go, filter, columns, rowHeight: 60,
    useRow: (inbox) => useSummary(connection, inbox), memory: connection, empty, ...rest });
}

const Tabs = ({ label, place, of, tabs }) => h("nav.tabs", { "aria-label": label },
  Object.entries(tabs).map(([tab, text]) => h(Link, {
    key: tab, place: { ...of, tab }, "aria-current": place.tab === tab ? "page" : null }, text)));

const Stat = ({ label, children }) => h("div.stat", h("span.muted.small", label), children);

function InboxPage({ connection, id, list: [list, lists], ask, after, ...rest }) {
  const { place } = rest;
  const [known] = list.items;
  const inbox = useMemo(() => known ?? { id }, [known, id]);
  const of = useSummary(connection, inbox);
  const before = [...after, list.problem];
  const shared = {
    connection, id, inbox, lists, key: id, after: [...before, of.summary[0].problem], ...rest };
  return h(Fragment,
    h("div.bar",
      h("div.line", h(Link, { place: { connection } }, "Inboxes"), "/",
        h(Heading, h("bdi", model.titleOf(inbox)))),
      known && h(State, { inbox }), h("span.mono.muted", id),
      h("div.line", h(Toggle, { inbox, ask }),
        model.verbOf(inbox) === "Pause" && h("span.muted.small", model.DROPPED))),
    list.problem?.code === "not_found"
      ? h(Empty, { title: "This connection has no such inbox." })
      : h(Failure, { feed: [list, lists], after }),
    h(Failure, { feed: of.summary, after: before }),
    h("div.bar",
      model.COUNTED.map((status) => h(Stat, { key: status, label: status },
        h("b", h(Count, { connection, id, of, status })))),
      h(Stat, { label: "oldest message" }, h("b", h(Time, { at: of.oldest_created_at }))),
      h(Stat, { label: "listening DAGs" }, h(Listeners, { inbox })),
      h(Stat, { label: "DAG runs, last hour" }, h(Runs, { connection, inbox })),
      h(Stat, { label: "messages by outcome" }, h(Outcomes, { inbox, key: id }))),
    h(Tabs, {
      label: "Inbox", place, of: { connection, inbox: id },
      tabs: { messages: "Messages", "dead-letters": "Dead letters" } }),
    h(place.tab === "dead-letters" ? DeadLetters : Messages, shared));
}

function Messages({ connection, id, inbox, lists, place, go, after }) {
  const feed = useFeed(pathOf(connection, id, "messages"), { name: "messages" });
  const { answer, items } = feed[0];
  useEffect(() => lists.seed(answer?.inbox), [lists, answer]);
  const open = items.find((it) => it.id === place.message);
  const close = () => go({ message: "" });
  const columns = useMemo(() => [
    ["Message", "6.5rem", (it) => h(Link, { place: { ...place, message: it.id }, "aria-label": it.id },
      h(Id, it))],
    ["Status", "8.5rem", ({ status }) => h(Badge, { color: model.paletteOf(status) }, status), "mid",
      (it) => it.status],
    ["Created", "9rem", (it) => h(Time, { at: it.created_at }), "wide", (it) => Date.parse(it.created_at)],
    ["Deliveries", "8.5rem", (it) => h(Deliveries, { message: it, inbox }), "num", (it) => it.delivery_count],
    ["Error", "", (it) => h(Wrapped, { text: it.error_message }), "wide", (it) => it.error_message],
    ["DAG run", "25%", (it) => h(Run, { run: it.run ?? it.dead_letter, isDead: !it.run }), "",
      (it) => (it.run ?? it.dead_letter)?.state],
  ], [place, inbox]);
  const options = ["", ...model.statusesOf(items, place.status)];
  const searched = place.text.trim();
  const [asked, ask] = useState("");
  const filter = h(Fragment,
    h(Select, { label: "Status", value: place.status, options, change: (status) => go({ status }) }),
    searched && searched !== asked
      && h(Button, { onClick: () => ask(searched) }, "Search the payloads of DAG runs"));
  const why = inbox.status === "paused"
    ? `${model.DROPPED}: resume the inbox to receive new ones.`
    : "Messages whose DAG run was started in the last hour are listed here too.";
  const empty = h(Empty, { title: "The inbox is empty." }, why);
  return h(Fragment,
    h(Listing, {
      what: "messages", feed, place, go, after, filter, columns, rowHeight: 48, memory: id, empty }),
    asked && asked === searched && h(Found, { id, text: asked, key: asked }),
    place.message && answer && h(Dialog, { title: "Message", close },
      open
        ? h(Message, { message: open, inbox })
        : h(Empty, { title: "This message is no longer listed." }, why),
      h("div.end", h(Button, { onClick: close }, "Close"))));
}

const getFound = ([, text], _, signal) => client.airflow(
  ["dags", "~", "dagRuns"],
  [["conf_contains", text], ["run_id_pattern", "workflow__"], ["order_by", "-run_after"],
    ["limit", MAX_FOUND]],
  signal);

/** DAG runs of any age whose message has a text, such as an order number. */
function Found({ id, text }) {
  const [{ answer, problem }] = useFeed(["conf contains", text], { interval: 300 }, getFound);
  const runs = useMemo(() => model.runsOf(answer?.dag_runs ?? [], id), [answer, id]);
  return h("div.box", { role: "status" },
    h("strong", problem?.title ?? (answer
      ? `${model.counted(runs.length, "DAG runs")} of this inbox with “${text}” in the message`
      : "Searching…")),
    answer?.total_entries > MAX_FOUND
      && h("span.muted", `${answer.total_entries} DAG runs of all inboxes have it:`
        + ` the newest ${MAX_FOUND} are looked at.`),
    runs.map((run) => h("div.bar", { key: `${run.dag_id}/${run.run_id}` },
      h(Run, { run, isDead: run.isDead }), h(Id, { id: run.message_id }), h(Time, { at: run.at }))));
}

function Deliveries({ message, inbox }) {
  const { delivery_count: count } = message;
  const after = model.afterDeliveries(message, inbox);
  return after
    ? h("div", { title: after.text }, h(Badge, { color: after.palette }, count),
      h("div.small.muted.wide", after.next))
    : h(`span.${count ? "" : "muted"}`, count);
}

function Message({ message, inbox }) {
  const run = message.run ?? message.dead_letter;
  const tasks = model.tasksToBlame(message, inbox);
  const log = tasks.length > 0
    && tasks.map((task) => h(LastFailure, { key: `${task.dag_id}/${task.task_id}`, ...task }));
  return h(Fragment,
    h(Details, { of: {
      ...message, waits: model.whyWaiting(message, inbox), log,
      next: model.afterDeliveries(message, inbox)?.text } }),
    run?.run_id && h(Payload, { run }));
}

const getFailures = ([dag, task], _, signal) => client.airflow(
  ["dags", dag, "dagRuns", "~", "taskInstances"],
  [["task_id", task], ["state", "failed"], ["state", "up_for_retry"], ["order_by", "-start_date"],
    ["limit", 1]],
  signal);

const getResults = async ([, dag, task], _, signal) => {
  const { task_instances: ended } = await client.airflow(
    ["dags", dag, "dagRuns", "~", "taskInstances"],
    [["task_id", task], ["state", "success"], ["order_by", "-start_date"], ["limit", MAX_RESULTS]], signal);
  const results = ended.map(({ dag_run_id: run, map_index: index }) => getResult(
    ["dags", dag, "dagRuns", run, "taskInstances", task, "xcomEntries", "return_value"],
    [["map_index", index]], signal).catch(() => null));
  return { values: (await Promise.all(results)).map((entry) => entry?.value) };
};

/** On demand, as it takes a request for each run: only the results of listeners know of repeated messages. */
function Outcomes({ inbox }) {
  const [isAsked, ask] = useState(false);
  const tasks = (inbox.listeners ?? []).flatMap(({ dag_id: dag, tasks: all = [] }) =>
    all.map(({ task_id: task }) => ({ dag, task, inbox })));
  if (!isAsked) return tasks.length ? h(Button, { onClick: () => ask(true) }, "Count") : "–";
  return tasks.map((it) => h(Counted, { key: `${it.dag}/${it.task}`, ...it }));
}

function Counted({ dag, task, inbox }) {
  const [{ answer, problem }] = useFeed(["results", dag, task], { interval: 300 }, getResults);
  const count = answer?.values.length;
  return h("div", { title: `${dag}, ${task}` },
    problem?.title ?? (answer ? model.outcomesOf(answer.values, inbox.id) : "Counting…"),
    answer && h("div.muted.small",
      `in the last ${count === 1 ? "result" : `${count} results`} of ${task}`));
}

/** A link to the log of the last failed try of a listener's task. */
function LastFailure({ dag_id: dag, task_id: task }) {
  const [{ answer, problem }] = useFeed([dag, task], { interval: 30 }, getFailures);
  const [failed] = answer?.task_instances ?? [];
  if (failed) {
    return h("div", h(Link, { url: model.pathOfTask(failed) }, `${dag}, ${task}`), " failed ",
      h(Time, { at: failed.end_date ?? failed.start_date }));
  }
  return h("div", problem?.title ?? (answer ? `${dag}, ${task}: no failed try is stored` : "…"));
}

/** Of the message of a DAG run, for those who may read the run. */
function Payload({ run }) {
  const [{ answer, problem }] = useFeed(
    ["dags", run.dag_id, "dagRuns", run.run_id], { interval: 300 }, client.airflow);
  const [isCopied, setCopied] = useState(false);
  const { payload, whole } = useMemo(() => model.contentOf(answer?.conf), [answer]);
  const copy = () => navigator.clipboard.writeText(payload).then(() => setCopied(true));
  return h(Fragment,
    h("div.bar", h("span.muted", "Payload"),
      payload && navigator.clipboard && h(Button, { onClick: copy }, isCopied ? "Copied" : "Copy")),
    h(Text, { text: problem?.status === 404
      ? "The DAG run does not exist any more."
      : problem?.title ?? (answer ? payload : "…") }),
    whole && h("details", h("summary", "Whole message"), h(Text, { text: whole })));
}

const Text = ({ text }) => h(Fragment, h("pre.mono.scroll", text.slice(0, MAX_TEXT_LENGTH)),
  text.length > MAX_TEXT_LENGTH && h("span.muted.small", "Only its beginning is shown."));

/** Of one inbox, or with an `id` of "" of all inboxes of the connection. */
function DeadLetters({ connection, id, place, go, after, say }) {
  const path = id ? pathOf(connection, id, "dead-letters") : ["connections", connection, "dead-letters"];
  const feed = useFeed(path, { name: "dead_letters", keyOf: (it) => it.run_id, interval: 30 });
  const [asked, ask] = useState(null);
  const columns = useMemo(() => [
    ["Message", "6.5rem", (it) => h(Id, { id: it.message_id }), "wide"],
    ...(id ? [] : [["Inbox", "16%", (it) => h(Link, {
      place: { connection, inbox: it.inbox_id, tab: "dead-letters" } },
      h(Cut, { text: it.inbox_name ?? it.inbox_id })), "mid", (it) => it.inbox_name]]),
    ["Reason", "", (it) => h(Fragment,
      h(Cut, { text: it.reason }), h(Wrapped, { look: "muted.small", text: it.cause })),
    "", (it) => it.reason],
    ["Deliveries", "7rem", (it) => it.delivery_count, "num.wide", (it) => it.delivery_count],
    ["When", "8rem", (it) => h(Time, { at: it.started_at }), "wide", (it) => Date.parse(it.started_at)],
    ["Dead-letter run", "18%", (run) => h(Run, { run, isDead: true }), "wide", (run) => run.state],
    ["Replay", "16%", (it) => (it.replayed ? h(Run, { run: it.replayed })
      : h(Button, { onClick: () => ask([it]), "aria-label": `Replay ${it.message_id}` }, "Replay")),
    "mid"],
  ], [connection, id]);
  const { items, answer } = feed[0];
  const done = (letter, run) => feed[1].replace({ ...letter, replayed: run });
  const open = model.filtered(items, place).filter((it) => !it.replayed && it.target_dag_id);
  const empty = h(Empty, { title: "There are no dead letters." },
    "If a listener has a dead_letter_dag_id, messages that can start no DAG run come here.");
  const filter = h(Fragment,
    h(Select, {
      label: "State", value: place.status, options: ["", ...model.statusesOf(items, place.status, [])],
      change: (status) => go({ status }) }),
    answer?.is_partial && "Only the newest are listed.",
    open.length > 1 && h(Button, { onClick: () => ask(open) }, `Replay all ${open.length}`));
  return h(Fragment,
    h(Listing, {
      what: "dead letters", feed, place, go, after, filter, columns, rowHeight: 60,
      memory: `${id || connection}/dead`, empty }),
    model.unlisted(answer ?? {}).map((text) => h("div.muted.small", { key: text }, text)),
    asked && h(asked.length > 1 ? ReplayAllDialog : ReplayDialog, {
      letters: asked, connection, done, say, close: () => ask(null) }));
}

/** What the schema rejected is started as it is: whoever replays it knows that, and why, before. */
function Refused({ letters }) {
  const [sentence, ...causes] = model.refusals(letters);
  return sentence
    ? h("div.box", { style: paint("orange") }, h("strong", sentence),
      causes.map((cause) => h("span", { key: cause }, cause)))
    : null;
}

const replay = (connection, letter, body) => client.post(
  pathOf(connection, letter.inbox_id, "dead-letters", "replay"),
  { dag_id: letter.dag_id, run_id: letter.run_id, ...body });

const Why = ({ reason, setReason }) => h("label", "Why do you replay it? (required)", h("input", {
  value: reason, required: true, pattern: ".*\\S.*", maxLength: 500,
  onChange: (event) => setReason(event.target.value) }));

/** Each for its own DAG; one that fails does not stop the others. */
function ReplayAllDialog({ letters, connection, close, done, say }) {
  const [reason, setReason] = useState("");
  const act = async (form) => {
    const outcomes = [];
    for (const letter of letters) {
      const run = await replay(connection, letter, { trigger_dag_id: null, reason })
        .catch((problem) => problem);
      outcomes.push(run);
      if (run.run_id) done(letter, run);
      if (!form.isConnected || !(run.run_id || run.code)) break;
    }
    say(model.replayed(letters.length, outcomes));
  };
  const targets = model.targetsOf(letters).map(([text, count]) =>
    h("li", { key: text }, `${text}: ${model.counted(count, "messages")}`));
  return h(Action, {
    title: `Replay ${letters.length} messages?`, verb: `Start ${letters.length} DAG runs`, act, close },
    h(Refused, { letters }),
    h("p", "Each starts the DAG that it was meant for."), h("ul", targets), h("p", REPLAY),
    h(Why, { reason, setReason }));
}

function ReplayDialog({ letters, connection, close, done, say }) {
  const [letter] = letters;
  const target = letter.target_dag_id ?? "";
  const [dag, setDag] = useState(target);
  const [reason, setReason] = useState("");
  const act = async () => {
    const run = await replay(connection, letter, { trigger_dag_id: dag === target ? null : dag, reason });
    say(run.outcome === "existing"
      ? "Nothing was started; its DAG run exists:"
      : "The DAG run is started:", run);
    done(letter, run);
  };
  return h(Action, { title: "Replay the message?", verb: "Start DAG run", act, close },
    h(Refused, { letters }), h(Details, { of: letter }), h("p", REPLAY), h(Payload, { run: letter }),
    h("label", "DAG to start", h("input", {
      value: dag, required: true, pattern: ".*\\S.*", onChange: (event) => setDag(event.target.value) })),
    h(Why, { reason, setReason }));
}

function Inboxes() {
  const [query, setQuery] = useQuery();
  const place = useMemo(() => model.placeOf(query), [query]);
  const go = (changes) => setQuery(model.queryOf({ ...place, ...changes }, query), { replace: true });
  const connections = useFeed(["connections"], { name: "connections", interval: 300 });
  const [{ items, answer, problem }] = connections;
  const ids = items.map((item) => item.connection_id);
  const connection = place.connection || (ids.includes(DEFAULT) ? DEFAULT : ids[0]) || "";
  const list = useFeed(connection ? pathOf(connection, place.inbox).filter(Boolean) : [], {
    name: "inboxes", keyOf: (it) => it.id ?? it.name,
    isSeeded: place.inbox && place.tab !== "dead-letters" });
  const [asked, ask] = useState(null);
  const [said, setSaid] = useState(null);
  const say = (text, run) => setSaid([text, run]);
  useEffect(() => setSaid(null), [place.inbox, connection]);
  const done = (inbox) => {
    say(`${model.titleOf(inbox)} is ${model.describeState(inbox).label} now.`);
    list[1].replace(inbox);
  };
  const shared = { connection, place, go, ask, say, after: [problem] };
  const none = answer?.may_add
    ? h(Empty, { title: "There is no Workflow connection yet." }, "Add one under ",
      h(Link, { url: "/connections" }, "Admin, Connections"), ", with the connection type Workflow.")
    : h(Empty, { title: "You are not allowed to see any Workflow connection." },
      "Ask an administrator for a role that may read connections, such as Op or Admin.");
  // A link may give the name of an inbox.
  const [known] = list[0].items;
  const inbox = model.isId(place.inbox) ? place.inbox : "";
  useEffect(() => {
    if (place.inbox && known && known.id !== place.inbox) go({ inbox: known.id });
  }, [known, place.inbox]);
  return h(Frame, { feed: list[0] },
    !place.inbox && h("div.bar", h(Heading, "Inboxes"),
      connection && h(Select, {
        label: "Connection", value: connection, options: [...new Set([...ids, connection])],
        change: (id) => setQuery(model.queryOf({ connection: id }, query)) })),
    h(Status, said && h("div.box", said[0], said[1] && h(Run, { run: said[1] }))),
    h(Failure, { feed: connections }),
    h(Findings, { findings: list[0].findings, connection }),
    h("div.muted.small", model.uncounted(list[0].answer?.large_runs)),
    !connection ? (answer ? none : !problem && h(Status, "Loading…"))
      : inbox ? h(InboxPage, { ...shared, id: inbox, list })
      : place.inbox ? h(Fragment,
        h(Failure, { feed: list, after: [problem] }), h(Status, list[0].problem ? "" : "Loading…"))
      : h(Fragment, { key: connection },
        h(Tabs, {
          label: "Connection", place, of: { connection },
          tabs: { messages: "Inboxes", "dead-letters": "Dead letters" } }),
        place.tab === "dead-letters"
          ? h(DeadLetters, { ...shared, id: "" })
          : h(InboxList, { ...shared, feed: list })),
    asked && h(ToggleDialog, { inbox: asked, connection, done, close: () => ask(null) }));
}

// Airflow's UI finds the component by the name of the page.
Object.assign(globalThis, { Inboxes });
