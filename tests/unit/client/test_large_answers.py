"""Large answers: read beside the event loop, which small ones are not worth."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.wire import LARGE_BODY, Answer
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer

ODD = {"one": {"two": [{"three": 3}]}, "surrogate": "\ud800", "huge": 10**30, "empty": {}}


def page(padding: int) -> bytes:
    return answer(200, {"results": [{"id": "a", "payload": ODD}], "padding": "x" * padding})


@pytest.mark.parametrize(("padding", "beside"), [(LARGE_BODY, True), (0, False)], ids=["large", "small"])
def test_a_loop_has_large_answers_read_beside_it(
    padding: int, beside: bool, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    threads: list[int] = []
    call = api.lease_messages("an-inbox")

    def read(given: Answer) -> Any:
        threads.append(threading.get_ident())
        return call.read(given)

    scripted.answers = [page(padding)]
    send = make_send(scripted.settings())

    assert send(replace(call, read=read))["results"] == [{"id": "a", "payload": ODD}]
    assert (threads != [threading.get_ident()]) is (beside and send.name == "aiohttp")


def test_a_large_answer_that_cannot_be_read_fails_as_a_small_one_does(
    make_send: MakeSender, scripted: ScriptedServer
) -> None:
    scripted.answers = [answer(200, b"[" + b" " * LARGE_BODY + b"]")]
    with pytest.raises(errors.TransportError, match=r"lease_messages: .* not an object"):
        make_send(scripted.settings())(api.lease_messages("an-inbox"))
