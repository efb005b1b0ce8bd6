"""Large answers: read beside the event loop, which small ones are not worth."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client import api, client, errors
from airflow_provider_workflow.client.wire import LARGE_BODY, Answer
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.paces import Counting

ODD = {"one": {"two": [{"three": 3}]}, "surrogate": "\ud800", "huge": 10**30, "empty": {}}


def page(padding: int) -> bytes:
    return answer(200, {"results": [{"id": "a", "payload": ODD}], "padding": "x" * padding})


@pytest.mark.parametrize(("padding", "beside"), [(LARGE_BODY, True), (0, False)], ids=["large", "small"])
def test_a_loop_has_large_answers_read_beside_it(
    padding: int, beside: bool, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    threads: list[int] = []
    paces: list[Any] = []
    call = api.lease_messages("an-inbox")

    def read(given: Answer) -> Any:
        threads.append(threading.get_ident())
        paces.append(given.pace)
        return call.read(given)

    scripted.answers = [page(padding)]
    send = make_send(scripted.settings())

    assert send(replace(call, read=read))["results"] == [{"id": "a", "payload": ODD}]
    assert (threads != [threading.get_ident()]) is (beside and send.name == "aiohttp")
    assert (paces != [None]) is (beside and send.name == "aiohttp"), "in a task nobody waits"


@pytest.mark.parametrize(
    ("odd", "count"),
    [(b"1", 2_000), (b"[" * 2_000 + b"]" * 2_000, 50)],
    ids=["as usual", "endlessly deep"],
)
def test_beside_a_loop_a_lease_is_read_in_steps_to_its_last_message(
    odd: bytes, count: int, make_send: MakeSender, scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Counting()
    monkeypatch.setattr(client, "Pace", lambda: pace)
    messages = b",".join(b'{"id": "m%d", "payload": {"n": %s}}' % (number, odd) for number in range(count))
    scripted.answers = [answer(201, b'{"lease_id": "l", "results": [%s]}' % messages)]
    send = make_send(scripted.settings())

    assert [each["id"] for each in send(api.lease_messages("an-inbox"))["results"]][-1] == f"m{count - 1}"
    if send.name == "aiohttp":
        assert pace.calls > 2 * count
        assert threading.get_ident() not in pace.threads
    else:
        assert pace.calls == 0


def test_a_large_answer_that_cannot_be_read_fails_as_a_small_one_does(
    make_send: MakeSender, scripted: ScriptedServer
) -> None:
    scripted.answers = [answer(200, b"[" + b" " * LARGE_BODY + b"]")]
    with pytest.raises(errors.TransportError, match=r"lease_messages: .* not an object"):
        make_send(scripted.settings())(api.lease_messages("an-inbox"))
