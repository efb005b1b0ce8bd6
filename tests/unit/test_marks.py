"""The search of the tests for secrets: it finds each of them in whatever form, and nothing else."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus, urlencode

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.marks import Marks
from tests.unit.client.stores import logged_in

FORMS = {
    "as it is": lambda secret: f"the secret is {secret}.",
    "JSON": lambda secret: json.dumps({"password": secret}),
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"password": secret})),
    "repr": lambda secret: repr({"password": secret}),
    "an address": lambda secret: f"https://a/{quote(secret, safe='')}",
    "a user of an address": lambda secret: f"https://id:{quote_plus(secret)}@a/",
    "a query": lambda secret: urlencode({"code": secret}),
    "a page": lambda secret: html.escape(secret),
    "HTTP Basic": lambda secret: "Basic " + base64.b64encode(f"an-id:{secret}".encode()).decode(),
    "base64, one further": lambda secret: base64.b64encode(f"any-id:{secret}".encode()).decode(),
    "base64, two further": lambda secret: base64.b64encode(f"many-id:{secret}.".encode()).decode(),
    "base64 for addresses": lambda secret: base64.urlsafe_b64encode(json.dumps([secret]).encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_every_form(form: str) -> None:
    marks = Marks()
    text = FORMS[form](marks.new("client secret"))
    for content in (text, text.encode(), f"{'x' * 1000}{text}{'y' * 1000}"):
        assert {each.partition(",")[0] for each in marks.found(content)} == {"client secret"}


def test_a_secret_is_told_from_others_and_is_not_part_of_its_name() -> None:
    marks = Marks()
    one, other = marks.new("one"), marks.new("other")
    assert marks.found(one) == ["one"]
    assert marks.found(f"{one}{other}") == ["one", "other"]
    assert marks.found("one and other, *** and emulated") == []
    assert not any(one.rpartition(">")[2] in what for what in marks.found(one))


def test_each_token_of_the_emulator_is_found_though_nobody_named_it(emulator: EmulatorServer) -> None:
    tokens, marks = logged_in(emulator), Marks()
    assert marks.found(f"Bearer {tokens.access_token}") == ["access-token"]
    assert marks.found(tokens.refresh_token) == ["refresh-token"]
    assert marks.found(emulator.token()) == ["access-token"]
    assert marks.found(base64.b64encode(f"a{tokens.refresh_token}".encode())) == ["refresh-token, in base64"]


@pytest.mark.parametrize("value", ["short", "with signs that/are escaped"])
def test_what_cannot_be_looked_for_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="password cannot be looked for"):
        Marks().add("password", value)
