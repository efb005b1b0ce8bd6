"""An event stream means the same, whatever way its bytes are cut."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.client.event_stream import LONGEST_LINE, EventParser

NOTICES = [{"inbox_id": "i", "count": 1}, {"inbox_id": "é", "count": 2}]
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def fed(*chunks: bytes) -> list[Any]:
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@given(cuts=st.lists(st.integers(0, 200), max_size=8), end=ENDS)
@example(cuts=list(range(200)), end=b"\r\n")
def test_notices_survive_any_cut(cuts: list[int], end: bytes) -> None:
    frames = [b"data: " + json.dumps(each).encode() + end * 2 for each in NOTICES]
    whole = frames[0] + b": keep-alive" + end * 2 + frames[1]
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    assert fed(*(whole[a:b] for a, b in itertools.pairwise(places))) == NOTICES


@given(whole=st.binary(max_size=100), cut=st.integers(0, 100))
@example(whole=b"data: 1\r\ndata: 2\r\n\r\n", cut=8)
def test_any_bytes_mean_the_same_in_one_piece_and_in_two(whole: bytes, cut: int) -> None:
    assert fed(whole[:cut], whole[cut:]) == fed(whole)


PIECES = st.sampled_from([b"data:", b" 1", b"\n", b"\r", b"\r\n", b":", b"x", b"event: y"])


@given(pieces=st.lists(PIECES, max_size=12))
def test_each_piece_alone_means_the_same_as_all_at_once(pieces: list[bytes]) -> None:
    assert fed(*pieces) == fed(b"".join(pieces))


@pytest.mark.parametrize("data", [b"not json", b"", b"null", b"\xff", b"[" * 60_000])
def test_a_notice_that_cannot_be_read_is_still_a_notice(data: bytes) -> None:
    assert fed(b"data: " + data + b"\n\n") == [{}]


def test_data_of_several_lines_is_one_event() -> None:
    assert fed(b'data: {"count":\ndata: 3}\n\n') == [{"count": 3}]


@pytest.mark.parametrize(
    "silence", [b": keep-alive\n\n", b"\n\n\n", b"event: x\nid: 1\nretry: 5\n\n", b"data: 1\n"]
)
def test_what_is_no_whole_event_is_silence(silence: bytes) -> None:
    assert fed(silence) == []


def test_an_endless_line_or_event_takes_no_endless_memory() -> None:
    parser, piece = EventParser(), b"x" * 10_000
    tracemalloc.start()
    try:
        for _ in range(100):
            parser.feed(piece)
        of_line, _ = tracemalloc.get_traced_memory()
        parser.feed(b"\n")
        for _ in range(100):
            parser.feed(b"data: " + piece + b"\n")
        of_event, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert of_line < 2 * LONGEST_LINE
    assert of_event < 3 * LONGEST_LINE
    assert parser.feed(b"\n") == [{}]
