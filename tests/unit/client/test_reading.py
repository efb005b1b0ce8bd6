"""Odd values that must pass through, and hide nothing else (answers that are none: see ``matrix``)."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client import errors
from airflow_provider_workflow.dispatch.payloads import unstorable
from tests.unit.client.calls import make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer


def test_one_odd_number_does_not_hide_the_other_messages_of_a_lease(
    make_send: MakeSender, scripted: ScriptedServer
) -> None:
    odd = b'{"n": %s, "m": NaN, "i": Infinity, "s": "\\ud800\\u0000"}' % (b"9" * 5000)
    messages = b'[{"id": "good", "payload": {}}, {"id": "odd", "payload": %s}]' % odd
    scripted.answers = [answer(201, b'{"lease_id": "l", "results": %s}' % messages)]
    lease = make_send(scripted.settings())(make("lease_messages"))
    assert [each["id"] for each in lease["results"]] == ["good", "odd"]
    assert lease["results"][1]["payload"]["s"] == "\ud800\0"


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
    # Still deeper than any Airflow holds, so that no run is ever started with what is left of it.
    assert unstorable(lease["results"][1]["payload"]) is not None
    assert lease["results"][1]["payload_json"].encode().replace(b" ", b"") == deep
    assert "payload_json" not in lease["results"][0]


def test_other_answers_are_never_cut(make_send: MakeSender, scripted: ScriptedServer) -> None:
    scripted.answers = [answer(200, b'{"deep": ' + b"[" * 50_000 + b"]" * 50_000 + b"}")]
    with pytest.raises(errors.TransportError):
        make_send(scripted.settings())(make("get_inbox"))
