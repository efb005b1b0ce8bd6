"""Answers: headers, bodies, JSON beyond the standard, and the errors made of them."""

from __future__ import annotations

import json
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.client import any_json, errors
from airflow_provider_workflow.client.errors import RateLimit
from airflow_provider_workflow.client.over_requests import causes
from airflow_provider_workflow.client.wire import Answer, Request, host_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.senders import Sender
from tests.unit.fake_clock import FakeClock
from tests.unit.fuzz.payloads import same

NOON = 1_767_268_800
DATE = formatdate(NOON, usegmt=True)


def rate_answer(**headers: object) -> Answer:
    return Answer(429, {name.replace("_", "-"): str(value) for name, value in headers.items()}, b"")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "900"}, 900.0),
        ({"retry_after": "901"}, 900.0),
        ({"retry_after": " 7.5 "}, 7.5),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": ""}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": formatdate(NOON + 90, usegmt=True), "date": DATE}, 90.0),
        ({"retry_after": formatdate(NOON - 90, usegmt=True), "date": DATE}, 0.0),
        ({"x_ratelimit_remaining": 0, "x_ratelimit_reset": 30}, 30.0),
        ({"x_ratelimit_remaining": 0, "x_ratelimit_reset": NOON + 30, "date": DATE}, 30.0),
        ({"x_ratelimit_remaining": 0, "x_ratelimit_reset": NOON - 30, "date": DATE}, 0.0),
        ({"x_ratelimit_remaining": 1, "x_ratelimit_reset": 30}, None),
        ({"x_ratelimit_remaining": 0}, None),
        ({"retry_after": "2", "x_ratelimit_remaining": 0, "x_ratelimit_reset": 30}, 2.0),
    ],
)
def test_how_long_to_stay_away(headers: dict[str, object], seconds: float | None) -> None:
    assert rate_answer(**headers).retry_after() == seconds


@pytest.mark.parametrize("status", [200, 201, 202, 302, 400, 404, 500, 502, 504])
def test_retry_after_counts_with_429_and_503_alone_and_a_spent_window_with_any_status(status: int) -> None:
    assert Answer(503, {"retry-after": "7"}, b"").retry_after() == 7.0
    assert Answer(status, {"retry-after": "7"}, b"").retry_after() is None
    spent = {"retry-after": "7", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "30"}
    assert Answer(status, spent, b"").retry_after() == 30.0


def test_a_wrong_clock_of_ours_does_no_harm(fake_clock: FakeClock) -> None:
    fake_clock.set(0)
    limited = rate_answer(retry_after=formatdate(NOON + 5, usegmt=True), date=DATE)
    assert limited.retry_after() == 5.0
    assert rate_answer(x_ratelimit_reset=NOON + 5, date=DATE).rate_limit() == RateLimit(None, None, 5.0)


def test_our_own_clock_counts_where_the_service_names_no_date(fake_clock: FakeClock) -> None:
    fake_clock.set(NOON)
    assert rate_answer(x_ratelimit_reset=NOON + 5).rate_limit() == RateLimit(None, None, 5.0)
    assert rate_answer(x_ratelimit_reset=NOON + 5, date="yesterday").rate_limit() == RateLimit(
        None, None, 5.0
    )


def test_rate_headers_are_none_where_none_came() -> None:
    assert rate_answer().rate_limit() is None
    assert rate_answer(x_ratelimit_limit="many").rate_limit() is None
    assert rate_answer(x_ratelimit_limit=100, x_ratelimit_remaining=99).rate_limit() == RateLimit(
        100, 99, None
    )


@given(value=st.text(max_size=30))
def test_no_header_value_is_a_crash(value: str) -> None:
    headers = {
        "retry-after": value,
        "date": value,
        "x-ratelimit-reset": value,
        "x-ratelimit-remaining": value,
    }
    seconds = Answer(429, headers, b"").retry_after()
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.example.com/v2/guess?client_id=x", "api.example.com"),
        ("http://user:pw@host:81/", "host:81"),
        ("http://[::1]:81/", "[::1]:81"),
    ],
)
def test_an_address_is_named_by_its_host_alone(url: str, name: str) -> None:
    assert host_of(url) == name


def test_headers_and_body_stay_out_of_the_repr() -> None:
    request = Request(
        "GET", "https://a", {"q": "hush"}, {"Authorization": "hush"}, b"hush", 1.0, "http://me:hush@proxy"
    )
    assert "hush" not in repr(request)
    assert "hush" not in repr(Answer(200, {"x": "hush"}, b"hush"))


def test_the_causes_of_an_error_are_found_however_they_are_nested() -> None:
    innermost = OSError("refused")
    middle = RuntimeError("pool", innermost)
    outer = ValueError("outer")
    outer.__cause__ = middle
    assert causes(outer) == [outer, middle, innermost]


def test_errors_that_cause_each_other_are_no_endless_chain() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert causes(first) == [first, second]


@pytest.mark.slow
def test_one_odd_number_does_not_hide_the_other_messages_of_a_lease(
    make_send: MakeSender, scripted: ScriptedServer
) -> None:
    odd = b'{"n": %s, "m": NaN, "i": Infinity, "s": "\\ud800\\u0000"}' % (b"9" * 5000)
    messages = b'[{"id": "good", "payload": {}}, {"id": "odd", "payload": %s}]' % odd
    scripted.answers = [answer(201, b'{"lease_id": "l", "results": %s}' % messages)]
    lease = make_send(scripted.settings())(make("lease_messages"))
    assert [each["id"] for each in lease["results"]] == ["good", "odd"]
    assert lease["results"][1]["payload"]["s"] == "\ud800\0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'{"\\"]}":["[{\\\\",', b"]}")]
)
def test_one_endlessly_deep_payload_does_not_hide_the_other_messages_of_a_lease(
    make_send: MakeSender, scripted: ScriptedServer, opening: bytes, closing: bytes
) -> None:
    # Deeper than any supported Python decodes: 3.14 decodes 65,000 levels where the stack has 8 MB.
    deep = opening * 500_000 + b"1" + closing * 500_000
    messages = (
        b'[{"id": "good", "payload": {"n": [1]}}, {"id": "deep", "payload": %s}, {"id": "last"}]' % deep
    )
    scripted.answers = [answer(201, b'{"lease_id": "l", "results": %s}' % messages)]
    lease = make_send(scripted.settings())(make("lease_messages"))
    assert [each["id"] for each in lease["results"]] == ["good", "deep", "last"]
    assert lease["results"][0]["payload"] == {"n": [1]}
    assert lease["results"][1]["payload"].encode() == deep, "its text"


LEASE = (
    b'{"lease_id": "l", "results": [{"id": "good", "payload": {"n": 1}}, %s, {"id": "last"}],'
    b' "inbox_attributes": {"status": "active"}}'
)
BAD_PAYLOADS: dict[str, tuple[bytes, Any]] = {
    "not UTF-8": (b'{"name": "Andr\xff"}', {"name": "Andr\udcff"}),
    "Latin-1": (b'{"name": "Andr\xe9"}', {"name": "Andr\udce9"}),
    "cut UTF-8": (b'{"name": "Andr\xc3"}', {"name": "Andr\udcc3"}),
    "surrogates": (b'{"name": "\xed\xa0\x80"}', {"name": "\ud800"}),
    "a key that is not UTF-8": (b'{"\xff": 1}', {"\udcff": 1}),
    "an endless number and bad bytes": (
        b'{"n": %s, "m": "\xff"}' % (b"9" * 5000),
        {"n": float("inf"), "m": "\udcff"},
    ),
    "a bare control character": (b'"a\nb"', "a\nb"),
    "single quotes": (b"{'n': 1}", "{'n': 1}"),
    "no value": (b'{"n": }', '{"n": }'),
    "a comma too many": (b"[1, 2,]", "[1, 2,]"),
    "an unknown escape": (b'"\\x41"', '"\\x41"'),
    "a word": (b"undefined", "undefined"),
    "nothing": (b"", ""),
    "bad bytes outside of a string": (b'{"n": \xff}', '{"n": \udcff}'),
    "twice the same key": (b'{"n": 1, "n": 2}', {"n": 2}),
}


@pytest.mark.slow
@pytest.mark.parametrize("defect", BAD_PAYLOADS)
def test_one_payload_with_a_defect_does_not_hide_the_other_messages_of_a_lease(
    defect: str, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    payload, expected = BAD_PAYLOADS[defect]
    scripted.answers = [answer(201, LEASE % (b'{"id": "bad", "payload": %s, "created_at": "x"}' % payload))]
    lease = make_send(scripted.settings())(make("lease_messages"))
    assert [each["id"] for each in lease["results"]] == ["good", "bad", "last"]
    assert lease["results"][0]["payload"] == {"n": 1}
    assert lease["results"][1]["payload"] == expected
    assert (lease["lease_id"], lease["inbox_attributes"]) == ("l", {"status": "active"})


@pytest.mark.slow
@pytest.mark.parametrize("entry", [b"null", b"7", b'"m-1"', b"[]", b"{bad}", b"undefined"])
def test_an_entry_that_is_no_message_does_not_hide_the_messages_of_a_lease(
    entry: bytes, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    scripted.answers = [answer(201, LEASE % entry)]
    lease = make_send(scripted.settings())(make("lease_messages"))
    assert [each.get("id") for each in lease["results"]] == ["good", None, "last"]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_a_lease_in_another_encoding_is_read_despite_a_defect(
    encoding: str, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    text = (LEASE % b'{"id": "bad", "payload": {"n": undefined}}').decode()
    scripted.answers = [answer(201, text.encode(encoding))]
    lease = make_send(scripted.settings())(make("lease_messages"))
    assert [each["id"] for each in lease["results"]] == ["good", "bad", "last"]
    assert lease["results"][1]["payload"] == '{"n": undefined}'


@pytest.mark.slow
def test_other_answers_are_never_cut(make_send: MakeSender, scripted: ScriptedServer) -> None:
    scripted.answers = [answer(200, b'{"deep": ' + b"[" * 50_000 + b"]" * 50_000 + b"}")]
    with pytest.raises(errors.TransportError):
        make_send(scripted.settings())(make("get_inbox"))


def nested(levels: int) -> Any:
    value: Any = {"text": '\ud800 caf\u00e9 "]', "n": [2**70, -1.5e-7, True, None]}
    for level in range(levels):
        value = [value, level] if level % 2 else {"k\u00e9y": value, "": level}
    return value


def text_of(levels: int) -> str:
    inner = json.dumps(nested(0))
    for level in range(levels):
        inner = f"[{inner}, {level}]" if level % 2 else f'{{"kéy": {inner}, "": {level}}}'
    return inner


@pytest.mark.parametrize("levels", [0, 1, 2, 10_000])
def test_any_depth_is_decoded(levels: int) -> None:
    assert same(any_json.decode(text_of(levels)), nested(levels))


@pytest.mark.parametrize("text", ["", "[" * 2000, "]" * 2000, "[" * 2000 + "1, 2" + "]" * 1999, "x"])
def test_what_is_no_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        any_json.decode(text)


@pytest.mark.parametrize("levels", [0, 1, 2, 10_000])
def test_any_depth_is_encoded(levels: int) -> None:
    text = any_json.dumped(nested(levels))

    assert text.isascii()
    assert same(any_json.decode(text), nested(levels))


def test_empty_values_at_any_depth_are_encoded() -> None:
    text = "[" * 5000 + '{"a": [], "b": {}, "": null}' + "]" * 5000

    assert any_json.dumped(any_json.decode(text)) == text


def test_no_text_of_the_service_makes_up_a_line_of_a_log(send: Sender, emulator: EmulatorServer) -> None:
    told = {"status": 404, "code": "a\nb" + "c" * 1000}
    told["detail"] = "first\r\n\x1b[31msecond \u2028 third" + "d" * 10_000
    emulator.fault("status", operation="get_inbox", status=404, json={"errors": [told]})
    with pytest.raises(errors.NotFoundError) as raised:
        send(make("get_inbox"))
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 1100
    assert "first [31msecond third" in str(raised.value)
