// Parts of the page.

import { Feed, createClient } from "./api.js";
import * as model from "./model.js";
import { paint } from "./style.js";

const { React, ReactRouterDOM: Router } = globalThis;
const { useEffect, useRef, useState } = React;

/** This Airflow, with its base path: the module is at `<root>workflow/static/`. */
const ROOT = new URL("../../", import.meta.url);

/** By the server's clock. */
export const Now = React.createContext({ now: 0, locale: "en" });

const browser = {
  clock: {
    now: Date.now, setTimeout: setTimeout.bind(globalThis), clearTimeout: clearTimeout.bind(globalThis) },
  visibility: {
    isVisible: () => !document.hidden,
    subscribe: (changed) => {
      document.addEventListener("visibilitychange", changed);
      return () => document.removeEventListener("visibilitychange", changed);
    },
  },
};

/** `h("span.muted", props, ...children)` has the class `wf-muted`; props may be left out. */
export function h(type, ...rest) {
  const [first] = rest;
  const props = first?.constructor === Object && !React.isValidElement(first) ? rest.shift() : {};
  const [tag, ...classes] = typeof type === "string" ? type.split(".") : [type];
  const names = classes.filter(Boolean).map((name) => `wf-${name}`).join(" ");
  const own = classes.length ? { className: names } : {};
  return React.createElement(tag, { ...own, ...props }, ...rest);
}

export const client = createClient({ root: ROOT, fetch: fetch.bind(globalThis), clock: browser.clock });
const feeds = new Map();

// Feeds are kept, as Airflow sometimes mounts a component again.
export function useFeed(path, options, get = client.get) {
  const key = path.join("\n");
  if (!feeds.has(key)) feeds.set(key, new Feed({ load: (...args) => get(path, ...args), ...browser }));
  const feed = Object.assign(feeds.get(key), options);
  useEffect(() => {
    if (path.length) feed.start();
    return () => feed.stop();
  }, [feed]);
  return [React.useSyncExternalStore(feed.subscribe, feed.get), feed];
}

/** The last answer of a path that some part of the page shows, or has shown. */
export const knownAnswer = (path) => feeds.get(path.join("\n"))?.get().answer;

/** Places are query strings: Airflow mounts a page again when the path changes. */
export const useQuery = Router.useSearchParams;

export function Link({ url, place, ...rest }) {
  const [query] = useQuery();
  const search = place && `?${model.queryOf(place, query)}`;
  const to = search ? { search } : model.safePath(url);
  return to ? h(Router.Link, { to, ...rest }) : h("span", rest);
}

export function Time({ at, isWhole }) {
  const { now, locale } = React.useContext(Now);
  const text = model.relativeTime(at, now, locale);
  if (!text) return "–";
  const whole = model.absoluteTime(at, locale);
  return h("time", { dateTime: at, lang: locale, title: whole }, isWhole ? `${text} (${whole})` : text);
}

export const Badge = ({ color, children }) => h("span.badge", { style: paint(color) }, children);

export const Cut = ({ text, look = "", title = text }) => h(`bdi.cut.${look}`, { title }, text);

/** On two lines at most. */
export const Wrapped = ({ text, look = "" }) => h(`bdi.two.${look}`, { title: text }, text);

export const Id = ({ id }) => h(Cut, { look: "mono", text: model.shortId(id), title: id });

export const Button = (props) => h("button.btn", { type: "button", ...props });

/** @param isDead whether the run is that of a dead letter. */
export function Run({ run, isDead }) {
  if (!run) return "–";
  const name = h(Cut, { text: run.dag_id, title: run.run_id });
  return h("div.line", h(Link, { url: run.url, className: "wf-line" }, name),
    run.state && h(Badge, { color: model.paletteOfRun(run.state, isDead) }, run.state));
}

export function Trouble({ problem, retry, children }) {
  const next = encodeURIComponent(location.href);
  return h("div.box", { role: "alert", style: paint("failed") },
    h("strong", problem.title), h("span", problem.fix), children,
    problem.status === 401
      ? h("a", { href: `${ROOT.pathname}api/v2/auth/login?next=${next}` }, "Log in")
      : retry && h(Button, { onClick: retry }, "Try again"));
}

export const Empty = ({ title, children }) => h("div.box", h("strong", title), h("span.muted", children));

const DETAILS = ("id message_id status waits next log created_at delivery_count error_message " +
  "possible_duplicate reason cause run dead_letter started_by").split(" ");

export function Details({ of }) {
  const label = (key) => key.replace(/_(at|id)$/, "").replace("_", " ");
  const value = (key, it) => {
    if (/_at$/.test(key)) return h(Time, { at: it, isWhole: true });
    if (it.run_id) return h(Run, { run: it, isDead: key === "dead_letter" });
    return it === true ? "yes" : it;
  };
  return h("dl", DETAILS.filter((key) => of[key] || of[key] === 0).map((key) =>
    h(React.Fragment, { key }, h("dt", label(key)), h("dd", value(key, of[key])))));
}

export function Select({ label, value, options, change }) {
  const option = (choice) => h("option", { key: choice, value: choice }, choice || "all");
  return h("label.line", label,
    h("select", { value, onChange: (event) => change(event.target.value) }, options.map(option)));
}

export const Status = (props) => h("div.muted", { role: "status", ...props });

export function Search({ label, value, change }) {
  const [text, setText] = useState(value);
  const reported = useRef(value);
  useEffect(() => {
    if (value !== reported.current) setText((reported.current = value));
  }, [value]);
  useEffect(() => {
    const timer = setTimeout(() => text !== reported.current && change((reported.current = text)), 80);
    return () => clearTimeout(timer);
  }, [text]);
  return h("input.grow", {
    type: "search", "aria-label": label, placeholder: label, value: text,
    onChange: (event) => setText(event.target.value) });
}

function Row({ item, columns, useRow, ...rest }) {
  const data = useRow?.(item);
  return h("tr", rest, columns.map(([title, , cell, name = ""]) =>
    h(`td.${name}`, { key: title }, cell(item, data))));
}

const scrolled = new Map();

/**
 * A table that renders only the rows in sight, which all have one height in pixels.
 *
 * @param columns `[title, width, cell(item, data), class, valueOf(item)]` of each; one with the last can be
 *   sorted by, and one without a width gets what the others leave. On a phone those of the class `wide` are
 *   left out, so that the others fit, and only `num` and `mid` have a width.
 * @param sort the title of a column, with "-" before it for the largest first.
 * @param useRow a hook that gives the data of an item to its cells.
 */
export function Table({ label, columns, items, keyOf, rowHeight, useRow, memory, sort, setSort }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const { first, last } = model.windowOf({ count: items.length, rowHeight, top, height });

  useEffect(() => {
    const { current } = box;
    current.scrollTop = scrolled.get(memory) ?? 0;
    const observer = new ResizeObserver(() => setHeight(current.clientHeight));
    observer.observe(current);
    return () => observer.disconnect();
  }, [memory]);

  const onScroll = () => {
    scrolled.set(memory, box.current.scrollTop);
    setTop(Math.floor(box.current.scrollTop / rowHeight) * rowHeight);
  };
  const gap = (rows) => h("tr.gap", { "aria-hidden": true },
    h("td", { style: { height: rows * rowHeight } }));
  const row = (item, at) => h(Row, {
    key: keyOf(item), item, columns, useRow, "aria-rowindex": first + at + 2,
    style: { height: rowHeight }, className: (first + at) % 2 ? "wf-odd" : "" });
  return h("div.scroll", { ref: box, tabIndex: 0, role: "region", "aria-label": label, onScroll },
    h("table", { "aria-rowcount": items.length + 1 },
      h("thead", h("tr", { "aria-rowindex": 1 }, columns.map(([title, width, , name = "", valueOf]) => {
        const order = model.orderOf(title, sort);
        return h(`th.${name}`, { key: title, scope: "col", style: { width }, "aria-sort": order },
          valueOf
            ? h("button.sort", { type: "button", onClick: () => setSort(model.nextSort(title, sort)) },
              title, order && h("span", { "aria-hidden": true }, order === "ascending" ? " ↑" : " ↓"))
            : title);
      }))),
      h("tbody", gap(first), items.slice(first, last).map(row), gap(items.length - last))));
}

/** Takes the focus where the link that led here is gone. */
export function Heading({ children }) {
  const ref = useRef(null);
  useEffect(() => {
    if (document.activeElement === document.body) ref.current.focus();
  }, []);
  return h("h2", { ref, tabIndex: -1 }, children);
}

export function Dialog({ title, close, children }) {
  const box = useRef(null);
  const id = React.useId();
  useEffect(() => {
    const { current } = box;
    const before = document.activeElement;
    current.showModal();
    return () => {
      current.close();
      before?.focus();
    };
  }, []);
  return h("dialog", { ref: box, "aria-labelledby": id, onCancel: close }, h("h2", { id }, title), children);
}

export function Action({ title, verb, act, close, children }) {
  const [{ isRunning, problem }, setState] = useState({});
  const onSubmit = async (event) => {
    event.preventDefault();
    setState({ isRunning: true });
    try {
      await act(event.target);
      if (event.target.isConnected) close();
    } catch (error) {
      setState({ problem: error });
    }
  };
  return h(Dialog, { title, close }, h("form", { onSubmit }, children, problem && h(Trouble, { problem }),
    h("div.end", h(Button, { onClick: close }, "Cancel"),
      h("button.btn.main", { disabled: isRunning }, isRunning ? "Please wait…" : verb))));
}
