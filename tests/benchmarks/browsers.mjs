// Browsers with the page Inboxes open, without what they draw: the page's own client asks as often as there.
//
// node browsers.mjs URL TOKEN CONNECTION COUNT: half of them show the list of inboxes, half an inbox. Runs until its
// standard input is closed, and then prints how many requests were answered and how many failed.

import { Feed, createClient, limited } from "../../airflow_provider_workflow/plugin/static/api.js";

const [root, token, connection, count] = process.argv.slice(2);
const START_SECONDS = 10;
const counts = { answered: 0, failed: 0 };
const clock = { now: Date.now, setTimeout, clearTimeout };
const visibility = { isVisible: () => true, subscribe: () => () => {} };

async function counted(url, options) {
  const response = await fetch(url, { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });
  counts[response.ok ? "answered" : "failed"] += 1;
  return response;
}

function open(showsInbox) {
  const client = createClient({ root, fetch: counted, clock });
  const feed = (path, options, load = client.get) =>
    new Feed({ load: (...given) => load(path, ...given), clock, visibility, ...options });
  const inboxes = ["connections", connection, "inboxes"];
  const getSummary = limited(2, client.get);
  const summaries = new Map();
  const list = feed(inboxes, { name: "inboxes" });
  const messages = new Map();
  list.subscribe(() => {
    for (const { id, summary } of list.get().items.slice(0, showsInbox ? 1 : undefined)) {
      if (!summaries.has(id)) {
        summaries.set(id, feed([...inboxes, id, "summary"], { interval: showsInbox ? 11 : 31, delay: 100 }, getSummary));
        summaries.get(id).start();
      }
      summaries.get(id).seed(summary);
      if (showsInbox && !messages.has(id)) {
        messages.set(id, feed([...inboxes, id, "messages"], { name: "messages" }));
        messages.get(id).start();
      }
    }
  });
  feed(["connections"], { name: "connections", interval: 300 }).start();
  list.start();
}

for (let number = 0; number < Number(count); number += 1) {
  setTimeout(() => open(number % 2 === 1), (number / Number(count)) * START_SECONDS * 1000);
}
process.stdin.resume().on("end", () => {
  console.log(JSON.stringify(counts));
  process.exit();
});
