"""
How long the page Inboxes takes to show what a user asked for, in Chromium within Airflow's own UI: the next
part of 500 inboxes when the list is scrolled, and what a filter leaves of 5,000 messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.results import Row, alone
from tests.page.fake_api import FakeAPI, inbox, message
from tests.page.host import airflow_ui, serving
from tests.page.steps import at
from tools.browser import browser_path, launch, opened

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.page.host import Host

INBOXES = 500
MESSAGES = 5000
AT_MOST_MS = 200
PLACES = (120, 420)
"""Rows far apart, between which the list is scrolled; their numbers have three digits, so that none begins
like another."""
SHOWN = """
async ([change, value, text]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const changes = {
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


def run(*, quick: bool) -> list[Row]:
    """
    Measure; ``quick`` with fewer rounds.

    :raises RuntimeError: there is no browser, or Airflow has no UI.
    """
    path, ui = browser_path(), airflow_ui()
    if path is None or ui is None:
        raise RuntimeError("The page is measured in Chromium: install it (on Debian: apt install chromium)")
    rounds = 3 if quick else 30
    with launch(path) as browser, serving(ui, FakeAPI()) as host, opened(browser, 1400, 900) as page:
        samples_by_title = {
            f"{INBOXES} inboxes, scrolled": _scrolled(page, host, rounds),
            f"{MESSAGES} messages, filtered": _filtered(page, host, rounds),
        }
    return [
        alone(f"page Inboxes: {title}", "ms", samples, at_most=AT_MOST_MS)
        for title, samples in samples_by_title.items()
    ]


def _scrolled(page: Page, host: Host, rounds: int) -> list[float]:
    """Only what is in sight is rendered, so that the name of a row is there when it is shown."""
    host.api = FakeAPI(quarantined=0)  # others come on top once they are counted
    host.api.inboxes = [inbox(number) for number in range(1, INBOXES + 1)]
    page.goto(f"{host.url}plugin/workflow-inboxes")
    page.get_by_text(f"{INBOXES} inboxes").wait_for()
    rows = [PLACES[number % 2] + number for number in range(rounds)]
    return [page.evaluate(SHOWN, ["scroll", row / INBOXES, f"orders-{row + 3}"]) for row in rows]


def _filtered(page: Page, host: Host, rounds: int) -> list[float]:
    host.api = FakeAPI()
    host.api.messages = [message(number, error_message=f"error {number}") for number in range(MESSAGES)]
    host.api.page_size = 500
    page.goto(f"{host.url}plugin/workflow-inboxes?{at()}")
    page.get_by_role("button", name="Load up to 5,000").click()
    page.get_by_text(f"{MESSAGES} messages").wait_for()
    samples = []
    for number in range(rounds):
        text = f"error {MESSAGES - 1 - number}"
        samples.append(page.evaluate(SHOWN, ["filter", text, f"1 of {MESSAGES} messages"]))
        page.evaluate(SHOWN, ["filter", "", "error 0"])
    return samples
