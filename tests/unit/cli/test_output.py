"""What reaches the terminal: nothing secret, and nothing that a terminal would obey."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from airflow.sdk.log import mask_secret

from airflow_provider_workflow.cli import output

EVIL = "\x1b]0;title\x07\x1b[31mred\x9b2J\u202eabc\u2028\x7f\r\nnext\0 [red]markup[/blue] :smile: %s"
FORMS = ("table", "plain", "json", "yaml")
NOT_PRINTED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]")

Show = Callable[..., str]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Show:
    """What ``output.show`` prints."""

    def show(*arguments: Any) -> str:
        output.show(*arguments)
        text: str = capsys.readouterr().out
        return text

    return show


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [EVIL, {EVIL: 1}])
def test_nothing_that_a_terminal_obeys_is_printed(shown: Show, form: str, value: Any) -> None:
    text = shown(form, {"value": value}, [{"value": value}])

    assert not NOT_PRINTED.search(text)
    assert "[red]markup[/blue] :smile: %s" in text.replace("\n", "")


@pytest.mark.parametrize("value", [EVIL, "\ud800", 2**70, {"a": [1, "ü"]}])
def test_a_script_gets_every_value_as_it_was(shown: Show, value: Any) -> None:
    assert json.loads(shown("json", {"value": value})) == {"value": value}


@pytest.mark.parametrize("value", [EVIL, 2**70, None, {"a": [1, "ü"]}, "yes", "1"])
def test_yaml_is_read_back_as_it_was(shown: Show, value: Any) -> None:
    assert yaml.safe_load(shown("yaml", {"value": value})) == {"value": value}


@pytest.mark.parametrize("depth", [100, 900])
@pytest.mark.parametrize("form", FORMS)
def test_a_value_that_is_nested_deep_can_be_printed(shown: Show, form: str, depth: int) -> None:
    deep: Any = "bottom"
    for _ in range(depth):
        deep = {"x": [deep]} if depth < 500 else [deep]

    text = shown(form, {"value": deep}, [{"value": deep}])

    if form in ("json", "yaml"):
        read = json.loads if form == "json" or depth > 500 else yaml.safe_load
        assert read(text) == {"value": deep}


@pytest.mark.parametrize("form", FORMS)
def test_a_lone_surrogate_can_be_printed(shown: Show, form: str) -> None:
    shown(form, ["\ud800"], [{"value": "\ud800"}]).encode("ascii", "strict")


@pytest.mark.parametrize("form", ["table", "plain"])
def test_a_long_value_is_cut_for_people(shown: Show, form: str) -> None:
    text = shown(form, None, [{"value": "x" * 10_000}])

    assert text.count("x") < 400
    assert "..." in text


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_that_airflow_knows_is_masked(shown: Show, form: str) -> None:
    mask_secret("secret-of-this-test")
    value = {"deep": ["before secret-of-this-test after"]}

    text = shown(form, value, [{"value": value}])

    assert "secret-of-this-test" not in text
    assert "before *** after" in text


def test_a_note_has_one_line_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    mask_secret("secret-of-this-test")

    output.note(f"refused: secret-of-this-test {EVIL}")

    told = capsys.readouterr().err
    assert told.startswith("refused: *** ")
    assert len(told.splitlines()) == 1
    assert not NOT_PRINTED.search(told)


def test_a_terminal_that_does_not_know_a_character_gets_it_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(buffer, encoding="ascii"))

    output.show("table", None, [{"value": "Grüße"}])

    assert b"Gr\\xfc\\xdfe" in buffer.getvalue()


@pytest.mark.parametrize("value", ["1e3", "007", " x"])
@pytest.mark.parametrize("form", ["table", "plain"])
def test_a_name_that_looks_like_a_number_stays_as_it_is(shown: Show, form: str, value: str) -> None:
    assert shown(form, None, [{"name": value}]).splitlines()[-1].strip() == value.strip()


def test_no_id_is_cut_or_wrapped_however_narrow_the_terminal_is(
    shown: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow.cli.simple_table.is_tty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    ids = [f"0b6c2c8e-7f3a-4a52-9d0b-{number:012}" for number in range(3)]

    text = shown("table", None, [{"id": each, "why": "took too long " * 9} for each in ids])

    assert [line.split(" | ")[0] for line in text.splitlines()[2:]] == ids


def test_several_tables_are_one_below_the_other(shown: Show) -> None:
    text = shown("plain", None, [{"a": 1}], [{"b": 2}])

    assert text.splitlines() == ["a", "1", "", "b", "2"]


def test_people_are_shown_nothing_where_there_is_nothing_to_see(shown: Show) -> None:
    assert shown("table", {"lease_id": None}) == ""
    assert shown("table", None, []) == "No data found\n"
