"""The functions that make strings of others harmless."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow import text
from tests.unit.notes import HOSTILE, IMAGE, is_harmless


@given(st.text())
def test_a_tag_is_plain(value: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", text.safe(value))
    assert text.safe("orders-2.eu_west") == "orders-2.eu_west"


LIMITS: dict[Callable[[str], str], int] = {text.escaped: 600, text.one_line: 500, text.ascii_of: 300}


@pytest.mark.parametrize("harmless", LIMITS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("hostile", ["a\nb\x1b[2J\u2028", "half \ud83d" * 99, "x" * 10_000], ids=ascii)
def test_a_log_has_one_printable_line_of_limited_length(harmless: Callable[[str], str], hostile: str) -> None:
    assert harmless(hostile).isprintable()
    assert len(harmless(hostile)) <= LIMITS[harmless]


def test_what_the_page_shows_has_no_half_of_a_surrogate_pair() -> None:
    assert text.for_page("half \ud83d") == "half ?"
    assert text.for_page("whole \U0001f600") == "whole \U0001f600"


@pytest.mark.parametrize(
    "hostile", [f"`{IMAGE}`", IMAGE + "\ue000" * 500, HOSTILE, "a\n\n# b\r\n| - |"], ids=ascii
)
def test_what_is_quoted_is_one_short_piece_of_code(hostile: str) -> None:
    assert is_harmless(text.quoted(hostile))
    assert text.quoted(hostile).isprintable()
    assert len(text.quoted(hostile)) <= 122


def test_what_is_quoted_stays_readable() -> None:
    assert text.quoted("workflow__m-1 \u65e5\u672c") == "`workflow__m-1 \u65e5\u672c`"
