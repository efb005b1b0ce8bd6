"""Answers that are no answers, and odd values that must pass through."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client import errors
from airflow_provider_workflow.values import problem
from tests.unit.client.calls import make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("get_inbox", b"null"),
        ("get_inbox", b"[]"),
        ("get_inbox", b""),
        ("list_inboxes", b'{"count": 1}'),
        ("list_inboxes", b'{"results": {}}'),
        ("list_inboxes", b'{"results": [null]}'),
        ("list_messages", b"{}"),
        ("lease_messages", b"{}"),
        ("lease_messages", b'"lease"'),
        ("list_templates", b"{}"),
        ("list_templates", b"[1]"),
        ("guess", b"[]"),
        ("app_token", b"[]"),
    ],
)
def test_an_answer_of_another_shape_is_no_answer(
    make_send: MakeSender, scripted: ScriptedServer, name: str, body: bytes
) -> None:
    scripted.answers = [answer(200, body)]
    scripted.token = answer(200, body) if name == "app_token" else scripted.token
    with pytest.raises(errors.TransportError) as raised:
        make_send(scripted.settings())(make(name))
    assert raised.value.sent
    assert name in str(raised.value)


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"cut', b"\xff\xfe\xfd", b"[" * 100_000, b'{"a":' * 200_000 + b"1" + b"}" * 200_000]
)
def test_a_body_that_cannot_be_read_is_no_answer(
    make_send: MakeSender, scripted: ScriptedServer, body: bytes
) -> None:
    scripted.answers = [answer(200, body, {"Content-Type": "text/html"})]
    with pytest.raises(errors.TransportError, match=r"get_inbox.*status 200.*text/html, \d+ bytes") as raised:
        make_send(scripted.settings())(make("get_inbox"))
    assert raised.value.sent


def test_one_odd_number_does_not_hide_the_other_messages_of_a_lease(
    make_send: MakeSender, scripted: ScriptedServer
) -> None:
    odd = b'{"n": %s, "m": NaN, "i": Infinity, "s": "\\ud800\\u0000"}' % (b"9" * 5000)
    messages = b'[{"id": "good", "payload": {}}, {"id": "odd", "payload": %s}]' % odd
    scripted.answers = [answer(201, b'{"lease_id": "l", "results": %s}' % messages)]
    lease = make_send(scripted.settings())(make("lease_messages"))
    assert [each["id"] for each in lease["results"]] == ["good", "odd"]
    assert lease["results"][1]["payload"]["s"] == "\ud800\0"


def test_fields_that_came_later_pass_through(make_send: MakeSender, scripted: ScriptedServer) -> None:
    scripted.answers = [answer(200, {"id": "i", "status": "on_holiday", "colour": {"new": [1]}})]
    inbox = make_send(scripted.settings())(make("get_inbox"))
    assert inbox["colour"] == {"new": [1]}
    assert inbox["status"] == "on_holiday"


@pytest.mark.parametrize(
    ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'{"\\"]}":["[{\\\\",', b"]}")]
)
def test_one_endlessly_deep_payload_does_not_hide_the_other_messages_of_a_lease(
    make_send: MakeSender, scripted: ScriptedServer, opening: bytes, closing: bytes
) -> None:
    deep = opening * 50_000 + b"1" + closing * 50_000
    messages = (
        b'[{"id": "good", "payload": {"n": [1]}}, {"id": "deep", "payload": %s}, {"id": "last"}]' % deep
    )
    scripted.answers = [answer(201, b'{"lease_id": "l", "results": %s}' % messages)]
    lease = make_send(scripted.settings())(make("lease_messages"))
    assert [each["id"] for each in lease["results"]] == ["good", "deep", "last"]
    assert lease["results"][0]["payload"] == {"n": [1]}
    # Still deeper than any Airflow holds, so that no run is ever started with what is left of it.
    assert problem(lease["results"][1]["payload"]) is not None


def test_other_answers_are_never_cut(make_send: MakeSender, scripted: ScriptedServer) -> None:
    scripted.answers = [answer(200, b'{"deep": ' + b"[" * 50_000 + b"]" * 50_000 + b"}")]
    with pytest.raises(errors.TransportError):
        make_send(scripted.settings())(make("get_inbox"))
