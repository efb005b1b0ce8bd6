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
from tools.demo_view import GLIMPSE, SHOWN, Screen, chosen, glimpse, table


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


def test_a_glimpse_of_a_long_payload_is_its_beginning() -> None:
    shown = glimpse({"text": "x" * 1000})

    assert shown.startswith('{"text": "xxx')
    assert shown.endswith("...")
    assert len(shown) == GLIMPSE


def test_the_payloads_of_all_messages_of_the_demo_fit_into_a_glimpse() -> None:
    assert not [number for number in range(1, 61) if glimpse(order(number)).endswith("...")]


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


def test_a_redelivery_is_a_line_of_its_own(messages: Messages, api: FakeAPI, clock: ManualClock) -> None:
    messages.put(order(1))
    api.is_slow = True
    messages.look()
    api.killed()
    written = console()
    with Screen(written).live("http://x") as show:
        show(messages)
        clock.advance(61)
        messages.look()
        messages.look()
        show(messages)

    leased = [line for line in text_of(written).splitlines() if "leased" in line]
    assert ["again" in line for line in leased] == [False, True]


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


def test_in_a_terminal_there_is_a_table(messages: Messages) -> None:
    messages.put(order(1))
    messages.look()
    written = console(width=120, force_terminal=True, color_system=None)
    with Screen(written).live("http://localhost:1234") as show:
        show(messages)

    text = text_of(written)
    assert "http://localhost:1234" in text
    assert glimpse(order(1)) in text
    assert "acknowledged 1" in text


def test_the_table_fits_into_80_columns_and_shortens_the_payload(messages: Messages) -> None:
    messages.put(*map(order, range(1, 4)))
    messages.look()
    for row in messages.rows.values():
        row.deliveries, row.leased = 2, row.put + 100
    written = console(width=80)
    written.print(table(messages, "http://localhost:12345"))

    text = text_of(written)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count('{"order": ') == 3
    assert text.count("2x +100.0 s") == 3


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


def test_the_table_keeps_unfinished_messages_and_the_latest_in_their_order() -> None:
    done = {"run_succeeded": 1.0, "acknowledged": 1.0}
    rows = {str(number): Row(0.0, **({} if number in (0, 7) else done)) for number in range(SHOWN + 10)}

    shown = list(chosen(rows))

    assert len(shown) == SHOWN
    assert shown == ["0", "7", *map(str, range(12, SHOWN + 10))]


def test_messages_are_not_done_before_they_were_looked_at(messages: Messages) -> None:
    assert not messages.all_done()
    messages.put(order(1))
    messages.look()
    assert messages.all_done()
    messages.put(order(2))
    assert not messages.all_done()


def test_a_failed_run_is_not_done(messages: Messages, api: FakeAPI) -> None:
    api.state = "failed"
    messages.put(order(1))
    messages.look()

    assert not messages.all_done()
    assert messages.totals() == "put 1, leased 1, run started 1, run succeeded 0, acknowledged 1"
