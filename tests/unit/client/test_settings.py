"""Connections: their fields, defaults and errors, and no secret in any text."""

from __future__ import annotations

import base64
import html
import json
import logging
import pickle
import re
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import certifi
import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import ConfigurationError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import AccessToken
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.traces import told
from tests.unit.client.calls import OPERATIONS, SOME_ID, make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.senders import StepsSender

FULL: dict[str, Any] = {
    "host": "https://api.example.com",
    "login": "an-id",
    "password": "a-secret",
    "extra": {"oauth_url": "https://api.example.com/oauth/token/"},
}


def build(extra: dict[str, Any] | None = None, **changes: Any) -> Settings:
    fields = {**FULL, **changes}
    return Settings.build(**{**fields, "extra": {**fields["extra"], **(extra or {})}})


def problems(extra: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        build(extra, **changes)
    assert isinstance(raised.value, ValueError)
    return raised.value.problems


def test_what_is_left_out_has_its_default() -> None:
    assert build() == Settings(
        base_url="https://api.example.com",
        client_id="an-id",
        client_secret="a-secret",
        token_url="https://api.example.com/oauth/token/",
        auth_url="",
        scope="external",
        inbox_path="/trigger-inbox/v1",
        templates_path="/v1/workflow-templates",
        redirect_uri="",
        timeout=30.0,
        verify=True,
        grant="client_credentials",
        connection_id="",
    )


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_every_missing_field_is_named_in_one_sentence(nothing: str | None) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Settings.build(host=nothing, login=nothing, password=nothing, extra={"oauth_url": nothing})
    text = str(raised.value)
    assert text.startswith("The workflow connection cannot be used: host is missing")
    assert [name for name in ("host", "login", "password", "oauth_url") if f"{name} is missing" in text] == [
        "host",
        "login",
        "password",
        "oauth_url",
    ]
    assert text.count(".") == 1


def test_missing_and_wrong_fields_are_named_together() -> None:
    extra = {
        "oauth_url": "token.example.com",
        "auth_url": "https://",
        "redirect_uri": "https://b:notaport/",
        "inbox_path": "inbox",
        "templates_path": "templates",
        "timeout": "soon",
        "verify": "/no/such/file.pem",
        "grant": "password",
    }
    found = problems(extra, login=None)
    fields = [problem.split(" ")[0] for problem in found]
    assert sorted(fields) == sorted([*extra, "login"])


@pytest.mark.parametrize(
    ("host", "scheme", "port", "base_url"),
    [
        ("api.example.com", None, None, "https://api.example.com"),
        ("api.example.com", "http", None, "http://api.example.com"),
        ("api.example.com/", None, 8443, "https://api.example.com:8443"),
        ("api.example.com:81", None, 82, "https://api.example.com:81"),
        ("http://api.example.com/base/", "https", 82, "http://api.example.com:82/base"),
        ("[::1]", "http", 82, "http://[::1]:82"),
        ("http://[::1]:81", None, 82, "http://[::1]:81"),
        ("::1", "http", 82, "http://[::1]:82"),
        ("2001:db8::7", None, None, "https://[2001:db8::7]"),
        ("http://::1", None, 82, "http://[::1]:82"),
        ("api.example.com", "HTTP", None, "http://api.example.com"),
        ("  https://api.example.com  ", None, None, "https://api.example.com"),
    ],
)
def test_the_base_url_takes_scheme_and_port_where_the_host_has_none(
    host: str, scheme: str | None, port: int | None, base_url: str
) -> None:
    assert build(host=host, scheme=scheme, port=port).base_url == base_url


@pytest.mark.parametrize(
    ("host", "scheme"),
    [("api.example.com", "prefix"), ("https://api.example.com", "https/prefix"), ("api.example.com", "ftp")],
)
def test_a_schema_that_is_a_path_is_named_as_such(host: str, scheme: str) -> None:
    (problem,) = problems(host=host, scheme=scheme)
    assert problem.startswith("schema must be http or https")
    assert "write the connection as JSON" in problem


@pytest.mark.parametrize(
    "host",
    [
        "ftp://a",
        "https://",
        "https://a:99999",
        "https://[a",
        "https://a b",
        "https://a?x=y",
        "https://a#b",
        "https://me:pw@a",
    ],
)
def test_a_host_that_is_no_web_address_is_named(host: str) -> None:
    (problem,) = problems(host=host)
    assert problems(host=host, port=81) == [problem]
    assert problem.startswith("host ")
    assert "pw" not in problem


def test_the_token_url_is_used_exactly_as_given() -> None:
    for url in ("https://a/token", "https://a/token/", "https://a/token?tenant=1"):
        assert build({"oauth_url": url}).token_url == url


@pytest.mark.parametrize(
    ("given", "verify"),
    [
        *((word, True) for word in (True, "true", "True", "1", 1, "yes")),
        *((word, False) for word in (False, "false", "False", "0", 0, "no")),
        (certifi.where(), certifi.where()),
        ("", True),
        (None, True),
    ],
)
def test_verify_may_be_a_value_or_a_text(given: Any, verify: bool | str) -> None:
    assert build({"verify": given}).verify == verify


@pytest.mark.parametrize(("given", "seconds"), [(5, 5.0), ("5", 5.0), (0.5, 0.5), ("", 30.0), (3600, 3600.0)])
def test_the_timeout_may_be_a_number_or_a_text(given: Any, seconds: float) -> None:
    assert build({"timeout": given}).timeout == seconds


@pytest.mark.parametrize("given", [0, -1, 3601, "nan", "inf", "5 s", True])
def test_a_timeout_out_of_range_is_named(given: Any) -> None:
    assert problems({"timeout": given}) == ["timeout must be a number of seconds above 0 and up to 3600"]


def test_slashes_at_the_end_are_no_part_of_a_path() -> None:
    settings = build({"inbox_path": "/inbox/", "templates_path": "/t/", "auth_url": "https://a/"})
    assert (settings.inbox_path, settings.templates_path, settings.auth_url) == ("/inbox", "/t", "https://a")


def test_an_id_that_basic_authentication_cannot_carry_is_named() -> None:
    assert problems(login="a:b") == ["login contains a colon (a client ID has none)"]


def test_a_secret_keeps_its_spaces_and_stays_out_of_the_repr() -> None:
    settings = build(password=" hush ")
    assert settings.client_secret == " hush "
    assert "hush" not in repr(settings)


@pytest.mark.parametrize("around", ["\n", "\r\n", "\t", "\u200b", "\ufeff", "\u00a0", "\x00"])
def test_what_copying_adds_around_a_field_is_no_part_of_it(around: str) -> None:
    """A line break after a secret, from ``echo``, was sent and rejected with 401."""
    fields = {"host": FULL["host"], "login": FULL["login"], "password": FULL["password"]}
    extra = {**FULL["extra"], "scope": "external", "inbox_path": "/trigger-inbox/v1"}
    pasted = {name: f"{around}{text}{around}" for name, text in fields.items()}
    assert build({name: f"{text}{around}" for name, text in extra.items()}, **pasted) == build()


@pytest.mark.parametrize("field", ["login", "password", "scope", "inbox_path", "templates_path"])
@pytest.mark.parametrize("inside", ["\n", "\u200b", "\udc80"])
def test_an_invisible_character_inside_a_field_is_named(field: str, inside: str) -> None:
    text = f"/some{inside}text"
    found = problems(**{field: text}) if field in FULL else problems({field: text})
    assert found == [f"{field} contains an invisible character, such as a line break (enter it again)"]


def test_fields_that_nobody_knows_are_left_alone() -> None:
    assert build({"color": "blue", "client_secret": "other"}) == build()


def test_settings_can_be_told_apart_and_kept_in_tables() -> None:
    assert len({build(), build(), build(login="other")}) == 2


def test_certificates_are_those_of_certifi_unless_told_otherwise() -> None:
    assert build().certificates() == Path(certifi.where()).read_bytes().decode("ascii", "ignore")
    assert build({"verify": "false"}).certificates() is None


@pytest.mark.parametrize("grant", ["client_credentials", "refresh_token"])
def test_both_grants_are_taken(grant: str) -> None:
    assert build({"grant": grant}).grant == grant


SECRET = "client-secret-value"
TOKEN = "access-token-value"
REFRESH = "refresh-token-value"
CODE = "authorization-code-value"
BASIC = base64.b64encode(f"an-id:{SECRET}".encode()).decode()
HIDDEN = (SECRET, TOKEN, REFRESH, CODE, BASIC)
ECHO = " ".join(HIDDEN)
BEARER = AccessToken(TOKEN, 0, 0)

CALLS: dict[str, Callable[[], Any]] = {
    "get_inbox": lambda: make("get_inbox"),
    "lease_messages": lambda: make("lease_messages"),
    "guess": lambda: make("guess"),
    "app_token": lambda: api.app_token("external"),
    "exchange_code": lambda: api.exchange_code(CODE, "https://b"),
    "refresh_user_token": lambda: api.refresh_user_token(REFRESH),
}
SPELLED_OUT = "".join(f"\\u{ord(sign):04x}" for sign in ECHO)
REPLIES: dict[str, bytes] = {
    "an errors envelope": answer(400, {"errors": [{"code": "x", "detail": "y", "meta": {"z": 1}}]}),
    "an envelope that echoes": answer(401, {"errors": [{"code": "x", "detail": ECHO}]}),
    "an envelope that spells it out": answer(401, b'{"errors": [{"detail": "%s"}]}' % SPELLED_OUT.encode()),
    "an OAuth error that echoes": answer(400, {"error": "invalid", "error_description": ECHO}),
    "messages that echo": answer(400, {"messages": [{"detail": ECHO}]}),
    "a page that echoes": answer(500, ECHO.encode()),
    "no JSON": answer(200, ECHO.encode(), {"Content-Type": "text/plain"}),
    "another shape": answer(200, [ECHO]),
    "a redirect that echoes": answer(302, b"", {"Location": f"https://b/?token={TOKEN}&s={SECRET}"}),
    "a cut": b"",
    "half an answer": answer(200, ECHO.encode(), {"Content-Length": "1000"}, close=True),
    "no HTTP": f"{ECHO}\r\n\r\n".encode(),
}


def sent_by(name: str) -> tuple[str, ...]:
    """What a service can quote."""
    own = {"exchange_code": CODE, "refresh_user_token": REFRESH, "get_inbox": TOKEN, "lease_messages": TOKEN}
    return (SECRET, BASIC, *([own[name]] if name in own else []))


ECHOING = "an envelope that echoes"
BROKEN = ("a cut", "half an answer", "no HTTP")
CASES = [
    # An error is made of an answer above the transports: all answers to one of them, for a call that holds
    # an access token and for one that holds all other secrets.
    *(("requests", name, reply) for name in ("get_inbox", "exchange_code") for reply in REPLIES),
    *(("aiohttp", name, reply) for name in ("get_inbox", "exchange_code") for reply in (ECHOING, *BROKEN)),
    *(("requests", name, ECHOING) for name in CALLS if name not in ("get_inbox", "exchange_code")),
]


@pytest.mark.parametrize(("make_send", "name", "reply"), CASES, indirect=["make_send"])
def test_a_failure_shows_no_secret(
    name: str, reply: str, make_send: MakeSender, scripted: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted.answers = [REPLIES[reply]]
    if "token" in name or name == "exchange_code":
        scripted.token = REPLIES[reply]
    else:
        scripted.token = answer(200, {"access_token": TOKEN})
    send = make_send(scripted.settings(client_secret=SECRET))
    with pytest.raises(errors.WorkflowError) as raised:
        send(CALLS[name]())
    assert told(raised.value, sent_by(name)) == []
    shown = caplog.text + repr(send.client.settings)
    assert [hidden for hidden in sent_by(name) if hidden in shown] == []


def test_success_logs_no_secret(
    make_send: MakeSender,
    emulator: EmulatorServer,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    send = make_send(settings)
    send(api.list_inboxes())
    token = send(api.app_token("external"))["access_token"]
    used = emulator.requests[1].headers["authorization"].removeprefix("Bearer ")
    assert [hidden for hidden in (token, used, settings.client_secret) if hidden in caplog.text] == []


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_request_its_address_and_its_call_show_no_secret(name: str) -> None:
    settings = Settings("https://a", "an-id", SECRET, "https://a/token")
    call = CALLS.get(name, lambda: make(name))()
    request = WorkflowClient(settings).build(call, BEARER)
    address = request.url + repr(request.query)
    shown = address + repr(call) + repr(request) + repr(BEARER) + repr(settings)
    assert [hidden for hidden in HIDDEN if hidden in shown] == []


ERRORS = [
    errors.ConfigurationError(["host is missing", "login is missing"]),
    errors.TransportError("broke off", sent=True, permanent=True),
    errors.GuessRejectedError("no", status=400, detail="no", meta={"messages": [{"detail": "no"}]}),
    errors.RateLimitError("slow", status=429, retry_after=3.0, rate_limit=errors.RateLimit(1, 0, 3.0)),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_crosses_to_another_process_as_it_is(error: errors.WorkflowError) -> None:
    error.may_repeat = False
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


ODD_SECRET = "p\"q'r\\s/t+u&v<w é=%20;"
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "repr": repr,
    "ascii": ascii,
    "JSON": json.dumps,
    "JSON in JSON": lambda secret: json.dumps(json.dumps(secret)),
    "JSON that is not ASCII": lambda secret: json.dumps(secret, ensure_ascii=False),
    "repr in JSON": lambda secret: json.dumps(repr(secret)),
    "URL": lambda secret: quote(secret, safe=""),
    "URL with slashes": quote,
    "URL in lower case": lambda secret: re.sub("%..", lambda found: found[0].lower(), quote(secret, safe="")),
    "form": quote_plus,
    "HTML": html.escape,
    "HTML without quotes": lambda secret: html.escape(secret, quote=False),
    "HTML with decimal numbers": lambda secret: html.escape(secret).replace("&#x27;", "&#39;"),
}
ENCODINGS = (base64.b64encode, base64.urlsafe_b64encode)


@pytest.mark.parametrize(
    ("place", "spelling", "secret"),
    [
        *(("detail", spelling, ODD_SECRET) for spelling in SPELLINGS),
        *((place, "as it is", SECRET) for place in ("detail", "page", "content type", "redirect")),
    ],
)
def test_a_secret_is_masked_however_an_error_spells_it(
    place: str, secret: str, spelling: str, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    quoted = SPELLINGS[spelling](secret)
    in_header = quoted.encode("ascii", "ignore").decode()
    if place in ("content type", "redirect") and in_header != quoted:
        return  # no header has such characters
    if place == "redirect" and any(sign in quoted for sign in "/ \"<\\%;&'"):
        return  # no host has them
    scripted.answers = [
        {
            "detail": answer(400, {"errors": [{"code": quoted, "detail": f"no: {quoted}!"}]}),
            "page": answer(500, f"<p>{quoted}</p>".encode()),
            "content type": answer(200, b"<html>", {"Content-Type": f"text/{quoted}"}),
            "redirect": answer(302, b"", {"Location": f"https://{quoted}.example.com/"}),
        }[place]
    ]
    with pytest.raises(errors.WorkflowError) as raised:
        make_send(scripted.settings(client_secret=secret))(api.get_inbox(SOME_ID))
    shown = f"{raised.value}{vars(raised.value)}".lower()
    assert quoted.lower() not in shown
    assert secret.lower() not in shown
    if place != "page":
        assert "***" in shown


@pytest.mark.parametrize("encode", ENCODINGS, ids=lambda encode: encode.__name__)
@pytest.mark.parametrize(
    ("before", "after", "secret"),
    [
        ("", "", SECRET),
        ("a", "z", ODD_SECRET),
        ("ab", "", SECRET),
        ("abc", "zz", SECRET),
        ("an-id:", "zz", ODD_SECRET),
    ],
)
def test_a_secret_is_masked_in_base64_at_each_alignment(
    secret: str, before: str, after: str, encode: Callable[[bytes], bytes], scripted: ScriptedServer
) -> None:
    text = encode(f"{before}{secret}{after}".encode()).decode()
    for quoted in (text, text.rstrip("=")):
        scripted.script(answer(401, {"errors": [{"detail": f"Basic {quoted}"}]}))
        send = StepsSender(scripted.settings(client_secret=secret), scripted.reply)
        with pytest.raises(errors.AuthenticationError) as raised:
            send(api.list_templates())
        assert "***" in str(raised.value)
        masked = str(raised.value).rpartition("Basic ")[2]
        assert longest_common(masked, text) < len(before) * 4 // 3 + len(after) * 4 // 3 + 5


def longest_common(one: str, other: str) -> int:
    """Length of the longest string that both have."""
    match = SequenceMatcher(None, one, other, autojunk=False).find_longest_match()
    return match.size


@pytest.mark.parametrize("status", [200, 302])
def test_a_header_of_the_service_is_short_and_printable_in_an_error(
    status: int, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    kind, host = b"x" * 5_000 + b"\x1b[2J\xc2\x9b\x9b", b"h" * 5_000 + b"\x1b[2J"
    head = b"HTTP/1.1 %d Any\r\nContent-Length: 1\r\nContent-Type: a%s\r\nLocation: http://%s/\r\n\r\n?"
    for longer in (0, 4_950):
        scripted.script(head % (status, kind[longer:], host[longer:]))
        with pytest.raises(errors.WorkflowError) as raised:
            make_send(scripted.settings())(api.get_inbox(SOME_ID))
        assert str(raised.value).isprintable()
        assert len(str(raised.value)) < 300
