"""A connection is checked in one place, and every fault of it is named at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import certifi
import pytest

from airflow_provider_workflow.client.errors import ConfigurationError
from airflow_provider_workflow.client.settings import Settings

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
