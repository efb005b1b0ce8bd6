"""Answers: how much of them is read, by whom, and JSON beyond the standard."""

from __future__ import annotations

import asyncio
import cProfile
import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client import answers, api, errors, inboxes, tolerant_json
from airflow_provider_workflow.client.http_messages import PIECE_BYTES, THREAD_FROM_BYTES, Answer, Body
from tests.unit.client.calls import OPERATIONS, SOME_ID, make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted_server import ScriptedServer, answer

ODD = {"one": {"two": [{"three": 3}]}, "surrogate": "\ud800", "huge": 10**30, "empty": {}}


def test_the_answer_to_each_call_has_a_limit() -> None:
    limits = {"lease_messages": 64_000_000}
    limits |= dict.fromkeys(("app_token", "exchange_code", "refresh_user_token"), 64_000)
    assert {name: make(name).limit for name in OPERATIONS} == dict.fromkeys(OPERATIONS, 16_000_000) | limits


CODERS = [("identity", bytes), ("gzip", gzip.compress)]


@pytest.fixture(scope="module", params=CODERS, ids=lambda coding: coding[0])
def bomb(request: pytest.FixtureRequest) -> tuple[bytes, dict[str, str]]:
    """A body of 50 MB, mostly blanks, in an encoding, and the header that names it."""
    name, encode = request.param
    return encode(b" " * 50_000_000 + b"{}"), {"Content-Encoding": name}


@pytest.mark.parametrize("status", [200, 400])
def test_of_a_large_answer_no_more_than_the_limit_is_read_and_it_is_not_requested_again(
    status: int, bomb: tuple[bytes, dict[str, str]], make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [answer(status, *bomb)]
    send = make_send(scripted_server.settings())
    call = replace(api.get_inbox(SOME_ID), limit=1_000_000)
    send(api.app_token("external"))
    tracemalloc.start()
    with pytest.raises(errors.WorkflowError) as error_info:
        send(call)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
    assert len(scripted_server.requests) == 1
    if status == 200:
        assert str(error_info.value) == "get_inbox: the answer is larger than 1,000,000 bytes"
        assert isinstance(error_info.value, errors.TransportError)
        assert (error_info.value.sent, error_info.value.permanent) == (True, True)
    else:
        assert str(error_info.value).startswith(f"The request for an inbox was answered with {status}")


def test_an_answer_as_large_as_the_limit_is_read(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    body = json.dumps({"id": "an-id", "status": "active", "x": "x" * 500_000}).encode()
    scripted_server.answers = [answer(200, gzip.compress(body), {"Content-Encoding": "gzip"})]
    inbox = make_send(scripted_server.settings())(replace(api.get_inbox(SOME_ID), limit=len(body)))
    assert inbox == json.loads(body)


@pytest.mark.parametrize(("encoding", "encode"), CODERS)
def test_a_call_adds_all_received_bytes_to_a_body(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    text = b"x" * (3 * PIECE_BYTES)
    body = Body(200, encoding, len(text))

    body.add(encode(text))

    assert body.received() == text


async def test_other_tasks_of_an_event_loop_run_while_a_body_is_decompressed() -> None:
    text = b"x" * (3 * PIECE_BYTES)
    body, turns = Body(200, "gzip", len(text)), []

    async def take_turns() -> None:
        while True:
            turns.append(len(turns))
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    await body.add_in_loop(gzip.compress(text))
    other.cancel()

    assert body.received() == text
    assert len(turns) >= 3


def test_an_error_is_cut_before_it_is_decoded(make_send: MakeSender, scripted_server: ScriptedServer) -> None:
    scripted_server.answers = [answer(400, {"errors": [{"code": "c", "detail": "d" * 70_000}]})]
    with pytest.raises(errors.InvalidRequestError) as error_info:
        make_send(scripted_server.settings())(api.get_inbox(SOME_ID))
    assert str(error_info.value) == "The request for an inbox was answered with 400: Bad Request"


def test_compressed_answers_are_not_asked_for(make_send: MakeSender, scripted_server: ScriptedServer) -> None:
    scripted_server.answers = [answer(200, {"id": "an-id", "status": "active"})]
    make_send(scripted_server.settings())(api.get_inbox(SOME_ID))
    for request in (*scripted_server.requests, *scripted_server.token_requests):
        assert request.lower().partition(b"accept-encoding:")[2].startswith(b" identity\r\n")


def lease_limits(scripted_server: ScriptedServer) -> list[int]:
    return [
        json.loads(request.partition(b"\r\n\r\n")[2])["lease_limit"] for request in scripted_server.requests
    ]


def lease(*sizes: int) -> bytes:
    messages = [{"id": str(number), "payload": "x" * size} for number, size in enumerate(sizes)]
    return answer(201, {"lease_id": "l", "results": messages})


def test_after_a_lease_that_is_too_large_one_message_is_leased(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [lease(3_000, 3_000, 3_000)]
    send = make_send(scripted_server.settings())
    for limit in (100, 100, 3, 1):
        call = replace(api.lease_messages(SOME_ID, limit), limit=8_000)
        with pytest.raises(errors.TransportError, match=r"than 8,000 bytes.*Lower lease_limit") as error_info:
            send(call)
        assert not error_info.value.permanent, "the next lease is smaller"
    assert lease_limits(scripted_server) == [100, 1, 1, 1]
    send(replace(api.lease_messages("another-inbox", 100), limit=100_000))
    assert lease_limits(scripted_server)[-1] == 100


def test_no_more_messages_are_leased_than_fit_4_mb_by_the_size_of_the_largest_one(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [
        lease(900_000),
        lease(10),
        lease(10, 10),
        lease(10, 1_900_000),
        lease(),
        lease(10),
    ]
    send = make_send(scripted_server.settings())
    for _ in range(6):
        send(api.lease_messages(SOME_ID, 100))
    # It is remembered for a few leases.
    assert lease_limits(scripted_server) == [100, 4, 8, 16, 2, 4]


def test_one_message_is_leased_however_large_the_one_before_was(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [lease(9_000_000), lease(10)]
    send = make_send(scripted_server.settings())
    for _ in range(2):
        send(api.lease_messages(SOME_ID, 100))
    assert lease_limits(scripted_server) == [100, 1]


@pytest.mark.parametrize(("name", "large"), [("get_inbox", THREAD_FROM_BYTES), ("lease_messages", 10_000)])
@pytest.mark.parametrize("size", [0, 0.1, 1])
def test_a_loop_has_large_answers_and_leases_read_beside_it(
    name: str, large: int, size: float, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    threads: list[int] = []

    def read(response: Answer) -> Any:
        threads.append(threading.get_ident())
        return response.json()

    page = {"results": [ODD], "padding": "x" * int(size * large)}
    scripted_server.answers = [answer(200, page)]
    send = make_send(scripted_server.settings())
    assert send(replace(make(name), read=read)) == page
    assert (threads != [threading.get_ident()]) is (size == 1 and send.name == "aiohttp")


def turns(read: Any, body: bytes) -> int:
    """How often other threads may run: the decoder in C keeps the interpreter unless it calls something."""
    profile = cProfile.Profile(builtins=False)
    profile.runcall(read, Answer(200, {}, body))
    return sum(entry.callcount for entry in profile.getstats())


def test_large_answers_and_leases_with_a_defect_are_decoded_once_with_turns_for_other_threads() -> None:
    objects = b"{}, " * 1000
    small = b'{"n": [%s{}]}' % objects

    assert turns(Answer.json, small) < 100, "as fast as possible"
    assert turns(Answer.json, small + b" " * THREAD_FROM_BYTES) > 1000
    assert 1000 < turns(answers.lease, b'{"results": [{"payload": [%s1]}, {"payload": ?}]}' % objects) < 2000


def lease_of(body: bytes) -> Any:
    """What an answer with this body is to whoever leases messages."""
    return answers.lease(Answer(201, {}, body))


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
    lease = lease_of(b'{"lease_id": "l", "results": %s}' % messages)
    assert [message["id"] for message in lease["results"]] == ["good", "deep", "last"]
    assert lease["results"][0]["payload"] == {"n": [1]}
    assert lease["results"][1]["payload"].encode() == deep, "its text"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize(("levels", "is_text"), [(147, False), (148, True), (900, True)])
def test_a_value_of_a_message_that_is_too_deep_for_airflow_is_its_text(
    levels: int, is_text: bool, opening: str, closing: str
) -> None:
    value = opening * levels + "1" + closing * levels
    lease = lease_of(
        f'{{"lease_id": "l", "results": [{{"id": "a", "payload": {value}}},'
        f' {{"id": "b", "payload": {{"n": 1}}}}, {{"id": "c", "message_attributes": {value}}}]}}'.encode()
    )
    deep, shallow, attributes = lease["results"]
    assert deep["payload"] == (value if is_text else json.loads(value))
    assert shallow["payload"] == {"n": 1}
    assert attributes["message_attributes"] == (None if is_text or opening == "[" else json.loads(value))


LEASE = (
    b'{"lease_id": "l", "results": [{"id": "good", "payload": {"n": 1}}, %s, {"id": "last"}],'
    b' "inbox_attributes": {"status": "active"}}'
)
BAD_PAYLOADS: dict[str, tuple[bytes, Any]] = {
    "not UTF-8": (b'{"name": "Andr\xff"}', {"name": "Andr\udcff"}),
    "surrogates": (b'{"name": "\xed\xa0\x80"}', {"name": "\ud800"}),
    "an endless number": (
        b'{"n": %s, "i": Infinity, "s": "\\ud800\\u0000"}' % (b"9" * 5000),
        {"n": float("inf"), "i": float("inf"), "s": "\ud800\0"},
    ),
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
    lease = lease_of(LEASE % (b'{"id": "bad", "payload": %s, "created_at": "x"}' % payload))
    assert [message["id"] for message in lease["results"]] == ["good", "bad", "last"]
    assert lease["results"][0]["payload"] == {"n": 1}
    assert lease["results"][1]["payload"] == expected
    assert (lease["lease_id"], lease["inbox_attributes"]) == ("l", {"status": "active"})


@pytest.mark.parametrize("entry", [b"null", b"[]", b"{bad}"])
def test_an_entry_that_is_no_message_does_not_hide_the_messages_of_a_lease(entry: bytes) -> None:
    lease = lease_of(LEASE % entry)
    assert [message.get("id") for message in lease["results"]] == ["good", None, "last"]


@pytest.mark.parametrize("payload", [b'{"text": "', b'"', b"[" * 2_000 + b'"'])
def test_a_lease_that_is_cut_within_many_quotes_is_soon_rejected(payload: bytes) -> None:
    before = LEASE.partition(b"%s")[0] + b'{"id": "cut", "payload": '
    began_at = time.thread_time()
    with pytest.raises(errors.TransportError, match="not JSON"):
        lease_of(before + payload + b'\\"quoted\\"' * 3_000)
    assert time.thread_time() - began_at < 2


def test_an_empty_lease_with_a_defect_is_empty() -> None:
    lease = lease_of(b'{"lease_id": null, "results": [ ], "inbox_attributes": {"paused_reason": "cl\xe9"}}')
    assert lease["results"] == []


ODD_INBOX = {"id": "i", "status": "paused", "name": 5, "paused_reason": ["x"], "notification_url": {}}
BARE = {"inbox_attributes": None, "results": [{"id": "a", "message_attributes": None}]}
READ_INBOX = {**ODD_INBOX, "name": None, "paused_reason": None, "notification_url": None}


@pytest.mark.parametrize(
    ("read", "body", "expected"),
    [
        (answers.inbox, ODD_INBOX, READ_INBOX),
        (answers.page_of_inboxes, {"results": [ODD_INBOX]}, {"results": [READ_INBOX]}),
        (answers.page, {"results": [{"id": "a", "message_attributes": ["x"]}]}, {"results": [{"id": "a"}]}),
        (answers.lease, {"inbox_attributes": ODD_INBOX}, {"inbox_attributes": READ_INBOX}),
        *(
            (
                answers.lease,
                {"inbox_attributes": odd, "results": [{"id": "a", "message_attributes": odd}]},
                BARE,
            )
            for odd in (None, "active", [{}])
        ),
    ],
    ids=["inbox", "inboxes", "messages", "lease", "a lease of null", "a lease of text", "a lease of lists"],
)
def test_optional_fields_of_another_type_are_left_out(read: Any, body: Any, expected: Any) -> None:
    page = read(Answer(200, {}, json.dumps({"results": [], **body}).encode()))
    assert {name: page[name] for name in body} == expected


NO_IDS: tuple[Any, ...] = ("", " ", ".", "..", "\ud800", 5, {})
"""Ids that no request for an inbox can have."""
DEFECTIVE: tuple[Any, ...] = (
    {"id": "b"},
    None,
    "x",
    [],
    *({"id": value, "status": "active"} for value in NO_IDS),
)


@pytest.mark.parametrize("defective", DEFECTIVE)
def test_one_defective_inbox_does_not_make_a_list_unreadable(
    defective: Any, make_send: MakeSender, scripted_server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    sound = [{"id": name, "status": "active", "name": name} for name in ("orders", "invoices")]
    scripted_server.answers = [
        answer(200, {"results": [defective, sound[0]], "next": "https://a/?offset=2"}),
        answer(200, {"results": [sound[1]], "next": None}),
    ]
    send = make_send(scripted_server.settings())
    assert send.run(inboxes.all_inboxes) == sound
    assert b"offset=2" in scripted_server.requests[1], "what is left out is not requested again"
    assert (
        "1 of 2 inboxes in the list of the service have no usable id or no status, and are left out"
        in caplog.text
    )

    scripted_server.script(answer(200, {"results": [defective, sound[0]], "next": None}))
    assert send.run(inboxes.look_up, "orders") == "orders"


@pytest.mark.parametrize("value", NO_IDS)
def test_an_inbox_whose_id_no_request_can_have_is_no_inbox(
    value: Any, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [answer(200, {"id": value, "status": "active"})]
    with pytest.raises(errors.TransportError, match="not an inbox with an id"):
        make_send(scripted_server.settings())(api.get_inbox(SOME_ID))


def test_a_next_page_that_no_request_can_name_is_an_error(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [answer(200, {"results": [], "next": "https://a/?cursor=\ud800"})]
    with pytest.raises(errors.TransportError, match="cursor no request can have"):
        make_send(scripted_server.settings()).run(inboxes.all_messages, SOME_ID)


@pytest.mark.parametrize("defective", [None, 5, "x", [], {"id": {}}, {"id": ["x"]}])
def test_nor_does_a_defective_message_or_template(
    defective: Any, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    sound: Any = {"id": "a", "status": "available"}
    scripted_server.answers = [answer(200, {"results": [defective, sound], "next": None})]
    send = make_send(scripted_server.settings())
    assert send.run(inboxes.all_messages, SOME_ID) == [{}, sound]

    full = [defective, *({"id": number} for number in range(1, 100))]
    scripted_server.script(answer(200, full), answer(200, [{"id": 100}, defective]))
    assert [template.get("id") for template in send.run(inboxes.all_templates, None, None)] == [
        *(None, *range(1, 100)),
        *(100, None),
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_lease_in_another_encoding_is_read_despite_a_defect(encoding: str) -> None:
    text = (LEASE % b'{"id": "bad", "payload": {"n": undefined}}').decode()
    lease = lease_of(text.encode(encoding))
    assert [message["id"] for message in lease["results"]] == ["good", "bad", "last"]
    assert lease["results"][1]["payload"] == '{"n": undefined}'


@pytest.mark.parametrize("text", ["[" * 2000, "]" * 2000, "[" * 500_000 + "]" * 500_000])
def test_what_is_no_json_or_deeper_than_python_decodes_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        tolerant_json.decode(text)


@pytest.mark.parametrize("members", ['"": null, "a": [1e999], "b": {}', '"b": {}, "a": [1e999], "": null'])
def test_numbers_without_limits_are_encoded_with_the_options_of_the_others(members: str) -> None:
    text = "[-1e999, {%s}]"
    value = tolerant_json.decode(text % members)

    assert tolerant_json.dumped(value) == text % members
    assert tolerant_json.dumped(value, sort_keys=True) == text % '"": null, "a": [1e999], "b": {}'


def test_infinity_beside_a_long_string_takes_no_memory_for_each_character() -> None:
    value = {"long": 'é"' * (size := 200_000), "number": float("inf")}
    tracemalloc.start()
    text = tolerant_json.dumped(value)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tolerant_json.decode(text) == value
    assert most < 40 * size
