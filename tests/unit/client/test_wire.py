"""Answers: headers, bodies, JSON beyond the standard, and the errors made of them."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client import answers, any_json
from airflow_provider_workflow.client.wire import Answer, Request


def test_headers_and_body_stay_out_of_the_repr() -> None:
    request = Request(
        "GET", "https://a", {"q": "hush"}, {"Authorization": "hush"}, b"hush", 1.0, "http://me:hush@proxy"
    )
    assert "hush" not in repr(request)
    assert "hush" not in repr(Answer(200, {"x": "hush"}, b"hush"))


def leased(body: bytes) -> Any:
    """What an answer with this body is to whoever leases messages."""
    return answers.lease(Answer(201, {}, body))


def test_one_odd_number_does_not_hide_the_other_messages_of_a_lease() -> None:
    odd = b'{"n": %s, "m": NaN, "i": Infinity, "s": "\\ud800\\u0000"}' % (b"9" * 5000)
    messages = b'[{"id": "good", "payload": {}}, {"id": "odd", "payload": %s}]' % odd
    lease = leased(b'{"lease_id": "l", "results": %s}' % messages)
    assert [message["id"] for message in lease["results"]] == ["good", "odd"]
    assert lease["results"][1]["payload"]["s"] == "\ud800\0"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'{"\\"]}":["[{\\\\",', b"]}")]
)
def test_one_endlessly_deep_payload_does_not_hide_the_other_messages_of_a_lease(
    opening: bytes, closing: bytes
) -> None:
    # Deeper than any supported Python decodes: 3.14 decodes 65,000 levels where the stack has 8 MB.
    deep = opening * 500_000 + b"1" + closing * 500_000
    messages = (
        b'[{"id": "good", "payload": {"n": [1]}}, {"id": "deep", "payload": %s}, {"id": "last"}]' % deep
    )
    lease = leased(b'{"lease_id": "l", "results": %s}' % messages)
    assert [message["id"] for message in lease["results"]] == ["good", "deep", "last"]
    assert lease["results"][0]["payload"] == {"n": [1]}
    assert lease["results"][1]["payload"].encode() == deep, "its text"


LEASE = (
    b'{"lease_id": "l", "results": [{"id": "good", "payload": {"n": 1}}, %s, {"id": "last"}],'
    b' "inbox_attributes": {"status": "active"}}'
)
BAD_PAYLOADS: dict[str, tuple[bytes, Any]] = {
    "not UTF-8": (b'{"name": "Andr\xff"}', {"name": "Andr\udcff"}),
    "surrogates": (b'{"name": "\xed\xa0\x80"}', {"name": "\ud800"}),
    "an endless number and bad bytes": (
        b'{"n": %s, "m": "\xff"}' % (b"9" * 5000),
        {"n": float("inf"), "m": "\udcff"},
    ),
    "a bare control character": (b'"a\nb"', "a\nb"),
    "single quotes": (b"{'n': 1}", "{'n': 1}"),
    "a comma too many": (b"[1, 2,]", "[1, 2,]"),
    "an unknown escape": (b'"\\x41"', '"\\x41"'),
    "a word": (b"undefined", "undefined"),
    "nothing": (b"", ""),
    "bad bytes outside of a string": (b'{"n": \xff}', '{"n": \udcff}'),
}


@pytest.mark.parametrize("defect", BAD_PAYLOADS)
def test_one_payload_with_a_defect_does_not_hide_the_other_messages_of_a_lease(defect: str) -> None:
    payload, expected = BAD_PAYLOADS[defect]
    lease = leased(LEASE % (b'{"id": "bad", "payload": %s, "created_at": "x"}' % payload))
    assert [message["id"] for message in lease["results"]] == ["good", "bad", "last"]
    assert lease["results"][0]["payload"] == {"n": 1}
    assert lease["results"][1]["payload"] == expected
    assert (lease["lease_id"], lease["inbox_attributes"]) == ("l", {"status": "active"})


@pytest.mark.parametrize("entry", [b"null", b"[]", b"{bad}"])
def test_an_entry_that_is_no_message_does_not_hide_the_messages_of_a_lease(entry: bytes) -> None:
    lease = leased(LEASE % entry)
    assert [message.get("id") for message in lease["results"]] == ["good", None, "last"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_lease_in_another_encoding_is_read_despite_a_defect(encoding: str) -> None:
    text = (LEASE % b'{"id": "bad", "payload": {"n": undefined}}').decode()
    lease = leased(text.encode(encoding))
    assert [message["id"] for message in lease["results"]] == ["good", "bad", "last"]
    assert lease["results"][1]["payload"] == '{"n": undefined}'


@pytest.mark.parametrize("text", ["[" * 2000, "]" * 2000, "[" * 2000 + "1, 2" + "]" * 1999])
def test_what_is_no_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        any_json.decode(text)


def test_empty_values_at_any_depth_are_encoded() -> None:
    text = "[" * 5000 + '{"a": [], "b": {}, "": null}' + "]" * 5000

    assert any_json.dumped(any_json.decode(text)) == text
