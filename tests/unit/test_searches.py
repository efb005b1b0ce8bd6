"""The searches of the tests: through errors, logs, and all content for secrets."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from airflow_provider_workflow.client.arguments import require_text
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.logs import entries
from tests.marks import Marks
from tests.traces import secrets_in
from tests.unit.client.stores import logged_in

SECRET = "a-secret-that-is-seen"


def test_what_an_error_holds_is_seen_in_its_causes_attributes_arguments_and_frames() -> None:
    error = ValueError("nothing", OSError(SECRET))
    assert secrets_in(error, [SECRET]) == ["its texts"]
    error = ValueError("nothing")
    error.__context__ = KeyError(SECRET)
    assert secrets_in(error, [SECRET]) == ["its texts"]
    error = ValueError("nothing")
    error.body = SECRET  # type: ignore[attr-defined]
    assert secrets_in(error, [SECRET]) == ["its texts"]
    with pytest.raises(ValueError) as error_info:
        require_text("name", SECRET, len(SECRET) - 1)
    assert secrets_in(error_info.value, [SECRET]) == ["client/arguments.py, require_text: value"]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T10:00:00.1Z [warning  ] Event stream broke [client.events] loc=1",
        "2026-01-01 10:00:00.1+00:00 [error    ] XCom not found [task] dag_id=d",
        "\x1b[2m2026-01-01T10:00:00Z\x1b[0m [\x1b[31merror    \x1b[0m] API server error [supervisor]",
        '{"timestamp": "2026-01-01T10:00:00Z", "level": "warning", "event": "rejected"}',
        "WARNING:  a line of uvicorn",
        "Traceback (most recent call last):\n  File x\nValueError: y",
    ],
)
def test_an_alarming_entry_is_seen(text: str) -> None:
    calm = "2026-01-01T10:00:00Z [info     ] calm"
    found_entries = list(entries("scheduler.log", f"{calm}\n{text}\n{calm}\n"))

    assert [entry.is_alarming for entry in found_entries] == [False, True, False]
    assert found_entries[1].text.splitlines()[-1] in text or "\x1b" in text


FORMS = {
    "as it is": lambda secret: f"the secret is {secret}.",
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"password": secret})),
    "an address": lambda secret: f"https://a/{quote(secret, safe='')}",
    "HTTP Basic": lambda secret: "Basic " + base64.b64encode(f"an-id:{secret}".encode()).decode(),
    "base64, one further": lambda secret: base64.b64encode(f"any-id:{secret}".encode()).decode(),
    "base64, two further": lambda secret: base64.b64encode(f"many-id:{secret}.".encode()).decode(),
    "base64 for addresses": lambda secret: base64.urlsafe_b64encode(json.dumps([secret]).encode()).decode(),
}
"""A secret holds letters that no form escapes; in base64 they begin at one of three places."""


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_every_form(form: str) -> None:
    marks = Marks()
    text = FORMS[form](marks.new("client secret"))
    for content in (text, text.encode(), f"{'x' * 1000}{text}{'y' * 1000}"):
        assert {mark.partition(",")[0] for mark in marks.kinds_in(content)} == {"client secret"}


def test_a_secret_is_told_from_others_and_a_token_is_found_unnamed(emulator: EmulatorServer) -> None:
    tokens, marks = logged_in(emulator), Marks()
    one, other = marks.new("one"), marks.new("other")
    assert marks.kinds_in(f"{one}{other}") == ["one", "other"]
    assert marks.kinds_in("one and other, *** and emulated") == []
    assert marks.kinds_in(f"Bearer {tokens.access_token}") == ["access-token"]
    assert marks.kinds_in(base64.b64encode(f"a{tokens.refresh_token}".encode())) == [
        "refresh-token, in base64"
    ]
