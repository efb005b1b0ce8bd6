"""
How long the page Inboxes takes to show what a user asked for, in Chromium within Airflow's own UI: the next
part of 500 inboxes when the list is scrolled, and what a filter leaves of 5,000 messages. The browser's time
for a frame in which nothing changes is measured beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.results import Row, Target, compared
from tests.page.fake_api import FakeAPI, inbox, message
from tests.page.host import airflow_ui, serving
from tests.page.steps import at
from tools.browser import installed, launched, opened

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.page.host import Host

INBOXES = 500
MESSAGES = 5000
ROUNDS = 30
QUICK_ROUNDS = 3
PLACES = (120, 420)
"""Rows far apart, between which the list is scrolled; their numbers have three digits, so that none begins
like another."""
AT_ONCE = Target("ours", "<", 200)
SHOWN = """
async ([change, value, text]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const changes = {
    nothing: () => {},
    scroll: () => {
      const box = document.querySelector('[role=region][aria-label=inboxes]');
      box.scrollTop = box.scrollHeight * value;
    },
    filter: () => {
      const box = document.querySelector('input[type=search]');
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(box, value);
      box.dispatchEvent(new Event('input', {bubbles: true}));
    },
  };
  await frame();
  const began = performance.now();
  changes[change]();
  do { await frame(); } while (!document.body.innerText.includes(text));
  await frame();
  return performance.now() - began;
}
"""
"""Milliseconds from a change to the frame after the one that has the text."""


def run(quick: bool) -> list[Row]:
    """
    Measure; ``quick`` with fewer rounds.

    :raises RuntimeError: there is no browser, or Airflow has no UI.
    """
    path, ui = installed(), airflow_ui()
    if path is None or ui is None:
        raise RuntimeError("The page is measured in Chromium: install it (on Debian: apt install chromium)")
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with launched(path) as browser, serving(ui, FakeAPI()) as host, opened(browser, 1400, 900) as page:
        return [_scrolled(page, host, rounds), _filtered(page, host, rounds)]


def _scrolled(page: Page, host: Host, rounds: int) -> Row:
    """Only what is in sight is rendered, so that the name of a row is there when it is shown."""
    host.api = FakeAPI()
    host.api.inboxes = [inbox(number) for number in range(1, INBOXES + 1)]
    page.goto(f"{host.url}plugin/workflow-inboxes")
    page.get_by_text(f"{INBOXES} inboxes").wait_for()
    ours, idle = [], []
    for number in range(rounds):
        row = PLACES[number % 2] + number
        ours.append(page.evaluate(SHOWN, ["scroll", row / INBOXES, f"orders-{row + 3}"]))
        idle.append(page.evaluate(SHOWN, ["nothing", "", ""]))
    return compared(f"page Inboxes: {INBOXES} inboxes, scrolled", "ms", ours, "an idle frame", idle, AT_ONCE)


def _filtered(page: Page, host: Host, rounds: int) -> Row:
    host.api = FakeAPI()
    host.api.messages = [message(number, error_message=f"error {number}") for number in range(MESSAGES)]
    host.api.page_size = 500
    page.goto(f"{host.url}plugin/workflow-inboxes?{at()}")
    page.get_by_role("button", name="Load up to 5,000").click()
    page.get_by_text(f"{MESSAGES} messages").wait_for()
    ours, idle = [], []
    for number in range(rounds):
        text = f"error {MESSAGES - 1 - number}"
        ours.append(page.evaluate(SHOWN, ["filter", text, f"1 of {MESSAGES} messages"]))
        page.evaluate(SHOWN, ["filter", "", "error 0"])
        idle.append(page.evaluate(SHOWN, ["nothing", "", ""]))
    return compared(
        f"page Inboxes: {MESSAGES} messages, filtered", "ms", ours, "an idle frame", idle, AT_ONCE
    )
