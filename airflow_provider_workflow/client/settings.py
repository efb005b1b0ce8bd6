"""What a client has to know of a connection: built in one place, all faults reported at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow.client.addresses import base_url, check_addresses, check_scheme
from airflow_provider_workflow.client.errors import ConfigurationError
from airflow_provider_workflow.client.unverified import warn_once

DEFAULT_TIMEOUT = 30.0
APP_GRANT = "client_credentials"
USER_GRANT = "refresh_token"
GRANTS = (APP_GRANT, USER_GRANT)
"""Whose access tokens are used: the application's own, or those of a user who has logged in."""
REQUIRED = {
    "host": "set the base URL of the service as Host",
    "login": "set the client ID as Login",
    "password": "set the client secret as Password",
    "oauth_url": "set the Token URL, the address of the token endpoint, in Extra",
}
EXTRA_FIELDS = (
    "oauth_url",
    "auth_url",
    "scope",
    "inbox_path",
    "templates_path",
    "redirect_uri",
    "timeout",
    "verify",
    "grant",
)
"""Those of the connection's Extra; each is a field of ``Settings``, ``oauth_url`` its ``token_url``."""
FORMER_OAUTH_URL = "token_url"
"""Former name of ``oauth_url``, still read. Airflow masks every extra whose name contains "token"."""


@dataclass(frozen=True)
class Settings:
    """
    A checked connection (docs/service.md 1 and 14).

    :param base_url: base URL of the API, with scheme and without a trailing slash.
    :param client_id: public identifier of the application.
    :param client_secret: its secret.
    :param token_url: the token endpoint, used exactly as given.
    :param auth_url: base of the authorization page, or "" where no user flow is used.
    :param scope: scope of the token for the trigger inbox (docs/service.md 14.4).
    :param inbox_path: prefix of the trigger inbox (docs/service.md 4).
    :param templates_path: path of the templates endpoint (docs/service.md 7).
    :param redirect_uri: redirect URI of the authorization-code flow, or "".
    :param timeout: seconds for one attempt, from connecting to the last byte; above 0.
    :param verify: True, False, or the path of a file with CA certificates.
    :param grant: where access tokens come from.
    :param connection_id: whose user tokens these are; no part of any address.
    """

    base_url: str
    client_id: str
    client_secret: str = field(repr=False)
    token_url: str
    auth_url: str = ""
    scope: str = "external"
    inbox_path: str = "/trigger-inbox/v1"
    templates_path: str = "/v1/workflow-templates"
    redirect_uri: str = ""
    timeout: float = DEFAULT_TIMEOUT
    verify: bool | str = True
    grant: str = APP_GRANT
    connection_id: str = ""

    @classmethod
    def build(
        cls,
        *,
        host: str | None,
        login: str | None,
        password: str | None,
        extra: Mapping[str, Any],
        scheme: str | None = None,
        port: int | None = None,
        connection_id: str = "",
    ) -> Settings:
        """
        Check the fields of a connection. Values of ``extra`` may be strings, as a connection given
        as a URI has them (``verify="false"``).

        :param scheme: scheme of the base URL where ``host`` has none; https by default.
        :param port: port of the base URL where ``host`` has none, or None.
        :raises ConfigurationError: names every missing or wrong field.
        """
        name_of_token_url, token_url = _token_url(extra)
        given = {"host": host, "login": login, "password": password, "oauth_url": token_url}
        problems = [
            f"{name} is missing ({cure})" for name, cure in REQUIRED.items() if not _text(given[name])
        ]
        _check_former_name(extra, problems)
        if ":" in _text(login):
            problems.append("login holds a colon (no client ID does)")
        address = base_url(_text(host), scheme, port)
        values: dict[str, Any] = {name: text for name in EXTRA_FIELDS if (text := _text(extra.get(name)))}
        values.pop("oauth_url", None)
        check_scheme(scheme, problems)
        check_addresses({**values, name_of_token_url: token_url, "host": address}, problems)
        _convert(values, extra, problems)
        if problems:
            raise ConfigurationError(problems)
        return cls(
            base_url=address,
            client_id=_text(login),
            client_secret=str(password),
            token_url=token_url,
            connection_id=connection_id,
            **values,
        )

    def ca_file(self) -> str | None:
        """
        The CA certificates that both senders trust; None when certificates are not verified, of which a
        WARNING tells once.

        The environment variables are those of ``requests``; reading them here keeps both alike.

        :raises ConfigurationError: an environment variable names no such file.
        """
        if self.verify is False:
            if any(urlsplit(url).scheme == "https" for url in (self.base_url, self.token_url)):
                warn_once(self.connection_id, self.base_url)
            return None
        if isinstance(self.verify, str):
            return self.verify
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            if path := os.environ.get(name):
                if not _holds_certificates(path):
                    raise ConfigurationError(
                        [f"{name} names no file with CA certificates (correct or unset it)"]
                    )
                return path
        import certifi

        return certifi.where()


def _token_url(extra: Mapping[str, Any]) -> tuple[str, str]:
    """The address of the token endpoint, and the name of the extra that holds it."""
    given = {name: _text(extra.get(name)) for name in ("oauth_url", FORMER_OAUTH_URL)}
    name = next((name for name, address in given.items() if address), "oauth_url")
    return name, given[name]


def _check_former_name(extra: Mapping[str, Any], problems: list[str]) -> None:
    given, former = (_text(extra.get(name)) for name in ("oauth_url", FORMER_OAUTH_URL))
    if given and former and given != former:
        problems.append(
            f"oauth_url and {FORMER_OAUTH_URL} differ (remove {FORMER_OAUTH_URL}, the former name)"
        )


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _convert(values: dict[str, Any], extra: Mapping[str, Any], problems: list[str]) -> None:
    if "auth_url" in values:
        values["auth_url"] = values["auth_url"].rstrip("/")
    for name in ("inbox_path", "templates_path"):
        if name in values:
            values[name] = values[name].rstrip("/")
    if "timeout" in values:
        try:
            values["timeout"] = float(values["timeout"])
            if not 0 < values["timeout"] <= 3600:
                raise ValueError
        except ValueError:
            problems.append("timeout must be a number of seconds above 0 and up to 3600")
    if "verify" in values:
        values["verify"] = _verify(extra["verify"], problems)
    if values.get("grant", GRANTS[0]) not in GRANTS:
        problems.append(f"grant must be one of {', '.join(GRANTS)}")


def _verify(value: Any, problems: list[str]) -> bool | str:
    word = str(value).strip()
    if word.lower() in ("true", "1", "yes"):
        return True
    if word.lower() in ("false", "0", "no"):
        return False
    if not _holds_certificates(word):
        problems.append("verify must be true, false or the path of a file with CA certificates")
    return word


def _holds_certificates(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"-----BEGIN " in file.read()
    except OSError:
        return False
