// Browsers with the page Inboxes open, without what they draw: the page's own feeds, connected as the page connects
// them, with the user's cookie.
//
// node browsers.mjs URL TOKEN CONNECTION COUNT: half of them show the list of inboxes, half an inbox. For each line of
// its standard input it prints how many requests were answered and how many failed; its standard error says why. It
// ends when the input is closed.

import { createInterface } from "node:readline";

import { Feed, createClient, limited } from "../airflow_provider_workflow/plugin/static/api.js";

const [root, token, connection, count] = process.argv.slice(2);
const START_SECONDS = 10;
const counts = { answered: 0, failed: 0 };
const clock = { now: Date.now, setTimeout, clearTimeout };
const visibility = { isVisible: () => true, subscribe: () => () => {} };

async function counted(url, options) {
  const failed = (why) => {
    counts.failed += 1;
    console.error(`${url}: ${why}`);
  };
  try {
    const response = await fetch(url, { ...options, headers: { ...options.headers, Cookie: `_token=${token}` } });
    if (response.ok) counts.answered += 1;
    else failed(`${response.status} ${await response.clone().text()}`);
    return response;
  } catch (error) {
    failed(error);
    throw error;
  }
}

async function open(showsInbox) {
  const client = createClient({ root, fetch: counted, clock });
  const feed = (path, options, load = client.get) =>
    new Feed({ load: (...given) => load(path, ...given), clock, visibility, ...options });
  const inboxes = ["connections", connection, "inboxes"];
  const id = showsInbox ? (await client.get(inboxes)).inboxes[1].id : null;
  const list = feed(showsInbox ? [...inboxes, id] : inboxes, { name: "inboxes", isSeeded: showsInbox });
  const getSummary = limited(2, client.get);
  const summaries = new Map();
  let answer = null;
  list.subscribe(() => {
    if (list.get().answer === answer) return;
    answer = list.get().answer;
    for (const inbox of list.get().items) {
      if (!summaries.has(inbox.id)) {
        summaries.set(inbox.id, feed([...inboxes, inbox.id, "summary"], { interval: 30, isSeeded: true }, getSummary));
        summaries.get(inbox.id).start();
      }
      summaries.get(inbox.id).seed(inbox.summary);
    }
  });
  feed(["connections"], { name: "connections", interval: 300 }).start();
  list.start();
  if (!showsInbox) return;
  const messages = feed([...inboxes, id, "messages"], { name: "messages" });
  messages.subscribe(() => list.seed(messages.get().answer?.inbox));
  messages.start();
}

for (let number = 0; number < Number(count); number += 1) {
  setTimeout(() => open(number % 2 === 1), (number / Number(count)) * START_SECONDS * 1000);
}
createInterface({ input: process.stdin })
  .on("line", () => console.log(JSON.stringify(counts)))
  .on("close", () => process.exit());
