"""The view of the demo: a table in a terminal, plain lines elsewhere, and a glimpse of each payload."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.tools.fake_airflow import FakeAPI
from tools.demo import CHAOS, FIRST_MESSAGE
from tools.demo_messages import Messages, Row, order
from tools.demo_view import Screen, glimpse, table


@pytest.fixture
def api(emulator: EmulatorServer) -> FakeAPI:
    emulator.open_inbox("orders")
    return FakeAPI(emulator, "orders")


@pytest.fixture
def messages(emulator: EmulatorServer, api: FakeAPI) -> Messages:
    return Messages(emulator, api, "orders", "handle_order")


def console(**options: object) -> Console:
    return Console(file=io.StringIO(), highlight=False, **options)


def text_of(written: Console) -> str:
    assert isinstance(written.file, io.StringIO)
    return written.file.getvalue()


def shown_in_lines(messages: Messages) -> list[str]:
    """The lines of two looks at the messages."""
    written = console()
    with Screen(written).live("http://x") as show:
        show(messages)
        show(messages)
    return text_of(written).splitlines()


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (order(17), '{"order": 17, "item": "plums", "crates": 2}'),
        ({"name": "Zoë\n\x1b[31m"}, '{"name": "Zoë\\n\\u001b[31m"}'),
        ("\x9b\u202e", '"\\x9b\\u202e"'),
    ],
)
def test_a_glimpse_is_one_printable_line(payload: object, shown: str) -> None:
    assert glimpse(payload) == shown


def test_each_step_of_a_message_is_a_line_once_with_its_payload(
    messages: Messages, clock: ManualClock
) -> None:
    messages.put(order(1))
    clock.advance(2.5)
    messages.look()
    (message_id,) = messages.rows

    lines = shown_in_lines(messages)

    assert [line.split("  ", 1)[0] for line in lines] == [message_id] * 5
    assert [line[len(message_id) + 2 :][:13].strip() for line in lines] == [
        "put",
        "leased",
        "run started",
        "run succeeded",
        "acknowledged",
    ]
    assert [line.split("+")[1].split(" s")[0].strip() for line in lines] == ["0.0", *["2.5"] * 4]
    assert all(line.endswith(glimpse(order(1))) for line in lines)


def test_lines_have_no_control_characters_and_are_not_wrapped(messages: Messages) -> None:
    messages.put(order(1))
    written = console(width=20)
    Screen(written).say("[bold]a line of more than twenty characters, with brackets[/bold]")
    with Screen(written).live("http://x") as show:
        show(messages)

    first, second = text_of(written).splitlines()
    assert first == "[bold]a line of more than twenty characters, with brackets[/bold]"
    assert second.endswith(glimpse(order(1)))
    assert "\x1b" not in text_of(written)


def test_everything_fits_into_a_terminal_of_80_by_24(messages: Messages) -> None:
    messages.put(*map(order, range(100, 200)))
    messages.look()
    written = console(width=80, height=24, force_terminal=True, color_system=None)
    screen = Screen(written)
    for text in (CHAOS, FIRST_MESSAGE):
        screen.say(text)
    said = text_of(written).splitlines()
    with screen.live("http://localhost:12345/plugin/workflow-inboxes") as show:
        show(messages)

    frame = "Inboxes in Airflow" + text_of(written).rpartition("Inboxes in Airflow")[2]
    shown = re.sub(r"\x1b\[[0-9?;]*\w", "", frame).rstrip().splitlines()
    assert max(map(len, (*said, *shown))) <= 80
    assert not [line for line in said if line.startswith(" ")]
    assert said[-1] == FIRST_MESSAGE, "one line, which stays whole above the table"
    assert len(shown) <= 22
    assert sum("order" in line for line in shown) >= 12
    assert any("http://localhost:12345/plugin/workflow-inboxes" in line for line in shown)
    assert any("put 100, leased 100, run started 100" in line for line in shown)
    assert any("Ctrl-C stops" in line for line in shown)


def test_a_payload_with_the_markup_of_the_console_is_shown_as_it_is(messages: Messages) -> None:
    messages.rows["a"] = Row(0.0, "[red]x[/blue]")
    written = console(width=120)
    written.print(table(messages, "http://x"))

    assert "[red]x[/blue]" in text_of(written)
