"""Connections: their fields, defaults and errors, and no secret in any text."""

from __future__ import annotations

import base64
import html
import json
import logging
import pickle
import re
import unicodedata
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import quote, quote_plus

import certifi
import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.errors import ConfigurationError
from airflow_provider_workflow.client.http_messages import Answer
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.client.tokens import AccessToken
from tests.traces import secrets_in
from tests.unit.client.calls import SOME_ID, make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted_server import ScriptedServer, answer
from tests.unit.client.senders import SENDERS, StepsSender

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
    with pytest.raises(ConfigurationError) as error_info:
        build(extra, **changes)
    assert isinstance(error_info.value, ValueError)
    return error_info.value.problems


def test_missing_and_wrong_fields_are_named_together() -> None:
    extra: dict[str, Any] = {
        "oauth_url": "token.example.com",
        "auth_url": "https://",
        "redirect_uri": "https://b:notaport/",
        "inbox_path": "inbox",
        "templates_path": "/templates?x=y",
        "timeout": "soon",
        "verify": "/no/such/file.pem",
        "grant": "password",
        "scope": ["external"],
    }
    texts = problems(extra, host=None, login=None, password=None)
    fields = [problem.split(" ")[0] for problem in texts]
    assert sorted(fields) == sorted([*extra, "host", "login", "password"])


@pytest.mark.parametrize(
    "host",
    [
        *("ftp://a", "https://", "https://a:99999", "https://[a", "https://a b"),
        *("https://a?x=y", "https://a#b", "https://me:pw@a"),
        *("https://a..b", "https://.a", f"https://{64 * 'a'}.b", f"https://{60 * 'é'}.b"),
        *("https:/a.example.com", "https//a.example.com"),
    ],
)
def test_a_host_that_is_no_web_address_is_named(host: str) -> None:
    (problem,) = problems(host=host)
    assert problems(host=host, port=81) == [problem]
    assert problem.startswith("host ")
    assert "pw" not in problem


def test_a_host_may_have_the_name_of_a_scheme() -> None:
    assert build(host="http", scheme="http", port=8080).base_url == "http://http:8080"


@pytest.mark.parametrize(
    ("host", "scheme", "port", "base_url"),
    [
        ("api.example.com", None, None, "https://api.example.com"),
        ("api.example.com", "HTTP", None, "http://api.example.com"),
        ("api.example.com/", None, 8443, "https://api.example.com:8443"),
        ("api.example.com:81", None, 82, "https://api.example.com:81"),
        ("http://api.example.com/base/", "https", 82, "http://api.example.com:82/base"),
        ("[::1]", "http", 82, "http://[::1]:82"),
        ("http://[::1]:81", None, 82, "http://[::1]:81"),
        ("2001:db8::7", None, None, "https://[2001:db8::7]"),
        ("http://::1", None, 82, "http://[::1]:82"),
        ("  https://api.example.com  ", None, None, "https://api.example.com"),
    ],
)
def test_scheme_and_port_are_taken_where_the_host_has_none(
    host: str, scheme: str | None, port: int | None, base_url: str
) -> None:
    assert build(host=host, scheme=scheme, port=port).base_url == base_url


@pytest.mark.parametrize(
    ("field", "value", "parsed_value"),
    [
        *(("verify", word, True) for word in (True, "True", "1", 1, "yes", "", None)),
        *(("verify", word, False) for word in (False, "False", "0", 0, "no")),
        ("verify", certifi.where(), certifi.where()),
        *(("timeout", number, seconds) for number, seconds in ((5, 5.0), ("0.5", 0.5), ("", 30.0))),
        ("timeout", "3600", 3600.0),
        ("inbox_path", "/inbox/", "/inbox"),
        ("templates_path", "/t/", "/t"),
        ("auth_url", "https://a/", "https://a"),
        *(("oauth_url", url, url) for url in ("https://a/token", "https://a/token/", "https://a/token?of=1")),
    ],
)
def test_a_field_may_be_a_value_or_a_text_and_only_the_token_url_keeps_its_last_slash(
    field: str, value: Any, parsed_value: Any
) -> None:
    name = "token_url" if field == "oauth_url" else field
    assert getattr(build({field: value}), name) == parsed_value


@pytest.mark.parametrize("timeout", [0, 3601, "nan", "5 s"])
def test_a_timeout_out_of_range_is_named(timeout: Any) -> None:
    assert problems({"timeout": timeout}) == ["timeout must be a number of seconds above 0 and up to 3600"]


def test_an_id_that_basic_authentication_cannot_carry_is_named() -> None:
    assert problems(login="a:b") == ["login contains a colon (a client ID has none)"]


def test_a_secret_keeps_its_spaces_and_stays_out_of_the_repr() -> None:
    settings = build(password=" hush ")
    assert settings.client_secret == " hush "
    assert "hush" not in repr(settings)


@pytest.mark.parametrize("field", ["login", "password", "scope", "inbox_path", "templates_path"])
def test_an_invisible_character_inside_a_field_is_named(field: str) -> None:
    text = "/some\u200btext"
    [problem] = problems(**{field: text}) if field in FULL else problems({field: text})
    assert problem == f"{field} contains an invisible character, such as a line break (enter it again)"


SECRET = "client-secret-value"
TOKEN = "access-token-value"
REFRESH = "refresh-token-value"
CODE = "authorization-code-value"
BASIC = base64.b64encode(f"an-id:{SECRET}".encode()).decode()
ECHO = " ".join((SECRET, TOKEN, REFRESH, CODE, BASIC))

CALLS: dict[str, Callable[[], Any]] = {
    "get_inbox": lambda: make("get_inbox"),
    "guess": lambda: make("guess"),
    "app_token": lambda: api.app_token("external"),
    "exchange_code": lambda: api.exchange_code(CODE, "https://b"),
    "refresh_user_token": lambda: api.refresh_user_token(REFRESH),
}
SPELLED_OUT = "".join(f"\\u{ord(sign):04x}" for sign in ECHO)
REPLIES: dict[str, bytes] = {
    "an envelope that echoes": answer(401, {"errors": [{"code": "x", "detail": ECHO}]}),
    "an envelope that spells it out": answer(
        401, b'{"errors": [{"detail": "%s"}], "n": %s}' % (SPELLED_OUT.encode(), b"9" * 5000)
    ),
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


def secrets_of(name: str) -> tuple[str, ...]:
    """What a service can quote."""
    own = {"exchange_code": CODE, "refresh_user_token": REFRESH, "get_inbox": TOKEN}
    return (SECRET, BASIC, *([own[name]] if name in own else []))


ECHOING = "an envelope that echoes"
BROKEN = ("a cut", "half an answer", "no HTTP")
CASES = [
    # An error is made of an answer above the transports: all answers for the call that holds most secrets.
    *(("requests", "exchange_code", reply) for reply in REPLIES),
    *((kind, "get_inbox", reply) for kind in SENDERS for reply in (ECHOING, *BROKEN)),
    *(("requests", name, ECHOING) for name in CALLS if name not in ("get_inbox", "exchange_code")),
]


@pytest.mark.parametrize(("make_send", "name", "reply"), CASES, indirect=["make_send"])
def test_a_failure_shows_no_secret(
    name: str,
    reply: str,
    make_send: MakeSender,
    scripted_server: ScriptedServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted_server.answers = [REPLIES[reply]]
    if "token" in name or name == "exchange_code":
        scripted_server.token = REPLIES[reply]
    else:
        scripted_server.token = answer(200, {"access_token": TOKEN})
    send = make_send(scripted_server.settings(client_secret=SECRET))
    with pytest.raises(errors.WorkflowError) as error_info:
        send(CALLS[name]())
    assert secrets_in(error_info.value, secrets_of(name)) == []
    text = caplog.text + repr(send.client.settings)
    assert [secret for secret in secrets_of(name) if secret in text] == []


ERRORS = [
    errors.ConfigurationError(["host is missing", "login is missing"]),
    errors.TransportError("broke off", sent=True, permanent=True),
    errors.GuessRejectedError("no", status=400, detail="no"),
    errors.RateLimitError("slow", status=429, retry_after=3.0),
    errors.LoginRequiredError("shop_prod", "none are stored"),
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
    "URL in lower case": lambda secret: re.sub("%..", lambda match: match[0].lower(), quote(secret, safe="")),
    "form": quote_plus,
    "HTML": html.escape,
    "HTML without quotes": lambda secret: html.escape(secret, quote=False),
    "HTML with decimal numbers": lambda secret: html.escape(secret).replace("&#x27;", "&#39;"),
}


@pytest.mark.parametrize(
    ("place", "spelling", "secret"),
    [
        *(("detail", spelling, ODD_SECRET) for spelling in SPELLINGS),
        *((place, "as it is", SECRET) for place in ("detail", "page", "content type", "redirect")),
    ],
)
def test_a_secret_is_masked_however_an_error_spells_it(
    place: str, secret: str, spelling: str, scripted_server: ScriptedServer
) -> None:
    quoted = SPELLINGS[spelling](secret)
    scripted_server.answers = [
        {
            "detail": answer(400, {"errors": [{"code": quoted, "detail": f"no: {quoted}!"}]}),
            "page": answer(500, f"<p>{quoted}</p>".encode()),
            "content type": answer(200, b"<html>", {"Content-Type": f"text/{quoted}"}),
            "redirect": answer(302, b"", {"Location": f"https://{quoted}.example.com/"}),
        }[place]
    ]
    with pytest.raises(errors.WorkflowError) as error_info:
        StepsSender(scripted_server.settings(client_secret=secret), scripted_server.reply)(
            api.get_inbox(SOME_ID)
        )
    text = f"{error_info.value}{vars(error_info.value)}".lower()
    assert quoted.lower() not in text
    assert secret.lower() not in text
    if place == "detail":  # no sign of it is left before or after
        assert re.search(r"""no: ["'\\]*\*{3}["'\\]*!""", text)
    elif place != "page":
        assert "***" in text


ACCENTED = "se\u00f1or-\u00dcber-gro\u00df"
ENCODED: dict[str, bytes] = {
    "Latin-1": ACCENTED.encode("latin-1"),
    "UTF-8": ACCENTED.encode(),
    "UTF-8 read as Latin-1": ACCENTED.encode().decode("latin-1").encode(),
    "decomposed": unicodedata.normalize("NFD", ACCENTED).encode(),
}


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("place", ["content type", "redirect", "page"])
@pytest.mark.parametrize("make_send", SENDERS, indirect=True)
def test_a_secret_that_is_not_ascii_is_masked_in_each_encoding(
    place: str, encoding: str, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    quoted = ENCODED[encoding]
    head, body = {
        "content type": (b"200 Any\r\nContent-Type: text/" + quoted, b"<html>"),
        "redirect": (b"302 Any\r\nLocation: https://" + quoted + b".example.com/", b""),
        "page": (b"500 Any\r\nContent-Type: text/html", b"<p>" + quoted),
    }[place]
    scripted_server.answers = [b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)]
    send = make_send(scripted_server.settings(client_secret=ACCENTED), longest_wait=0)
    with pytest.raises(errors.WorkflowError) as error_info:
        send(api.get_inbox(SOME_ID))
    text = f"{error_info.value}{vars(error_info.value)}"
    assert "***" in text
    assert "ber-gro" not in text.lower(), "the part of it that is the same in each encoding"


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
    secret: str, before: str, after: str, scripted_server: ScriptedServer
) -> None:
    send = StepsSender(scripted_server.settings(client_secret=secret), scripted_server.reply)
    text = f"{before}{secret}{after}".encode()
    for credentials in (base64.b64encode(text).decode(), base64.urlsafe_b64encode(text).decode()):
        for quoted in (credentials, credentials.rstrip("=")):
            scripted_server.script(answer(401, {"errors": [{"detail": f"Basic {quoted}"}]}))
            with pytest.raises(errors.AuthenticationError) as error_info:
                send(api.list_templates())
            masked_text = str(error_info.value).rpartition("Basic ")[2]
            assert "***" in masked_text
            common = SequenceMatcher(None, masked_text, credentials, autojunk=False).find_longest_match()
            assert common.size < len(before) * 4 // 3 + len(after) * 4 // 3 + 5


@pytest.mark.parametrize("name", CALLS)
def test_no_repr_of_a_call_and_its_request_shows_a_secret(name: str) -> None:
    settings = build(password=SECRET)
    call = CALLS[name]()
    bearer = AccessToken(TOKEN, 0.0, 0.0)
    request = WorkflowClient(settings).build(call, bearer)
    response = Answer(200, {"x": TOKEN}, REFRESH.encode())
    text = f"{call!r} {request.url} {request!r} {bearer!r} {settings!r} {response!r}"
    assert [secret for secret in (SECRET, TOKEN, REFRESH, CODE, BASIC) if secret in text] == []
