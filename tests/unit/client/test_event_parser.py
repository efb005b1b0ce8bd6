"""An event stream means the same, whatever way its bytes are cut."""

from __future__ import annotations

import itertools
import json
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_workflow.client.event_stream import LONGEST_LINE, EventParser
from tests.unit.fake_clock import FakeClock

NOTICES = [{"inbox_id": "i", "count": 1}, {"inbox_id": "é", "count": 2}]
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def fed(*chunks: bytes) -> int:
    """Notices of a stream."""
    parser = EventParser()
    return sum(parser.feed(chunk) for chunk in chunks)


@given(cuts=st.lists(st.integers(0, 200), max_size=8), end=ENDS)
@example(cuts=list(range(200)), end=b"\r\n")
def test_notices_survive_any_cut(cuts: list[int], end: bytes) -> None:
    frames = [b"data: " + json.dumps(each).encode() + end * 2 for each in NOTICES]
    whole = frames[0] + b": keep-alive" + end * 2 + frames[1]
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    assert fed(*(whole[a:b] for a, b in itertools.pairwise(places))) == 2


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
    assert fed(b"data: " + data + b"\n\n") == 1


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_byte_order_mark_hides_no_notice(size: int) -> None:
    whole = b"\xef\xbb\xbfdata: {}\n\n: \xef\xbb\xbf\n\ndata\n\n"
    assert fed(*(whole[start : start + size] for start in range(0, len(whole), size))) == 2


def test_data_of_several_lines_is_one_event() -> None:
    assert fed(b'data: {"count":\ndata: 3}\n\n') == 1


@pytest.mark.parametrize(
    "silence",
    [b": keep-alive\n\n", b"\n\n\n", b"event: x\nid: 1\nretry: 5\n\n", b"data: 1\n", b"dataset: 1\n\n"],
)
def test_what_is_no_whole_event_is_silence(silence: bytes) -> None:
    assert fed(silence) == 0


def test_an_endless_event_takes_no_memory() -> None:
    parser, line = EventParser(), b"data: " + b"x" * (LONGEST_LINE - 10) + b"\n"
    tracemalloc.start()
    try:
        for _ in range(100):
            parser.feed(line)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < LONGEST_LINE
    assert parser.feed(b"\n") == 1


def test_100_notices_in_each_second_are_accepted(fake_clock: FakeClock) -> None:
    parser = EventParser()
    for _ in range(5):
        assert parser.feed(b"data: {}\n\n" * 100) == 100
        fake_clock.advance(1)
