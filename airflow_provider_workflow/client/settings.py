"""The settings of a client, from the fields of a connection; one error names all invalid fields."""

from __future__ import annotations

import json
import logging
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from errno import EFBIG, EINVAL
from stat import S_ISREG
from threading import Condition
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from cachetools import LRUCache, cached

from airflow_provider_workflow.client.arguments import base_url, check_addresses
from airflow_provider_workflow.client.errors import ConfigurationError


def proxy_for(url: str) -> str | None:
    """
    The proxy for a URL by ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``; None for no proxy.

    The HTTP libraries do not read the environment themselves: ``requests`` would also read ``.netrc`` and
    replace the access token by credentials from there.

    :raises ConfigurationError: it is not an HTTP proxy; nothing is sent past a configured proxy.
    """
    from requests.utils import select_proxy, should_bypass_proxies

    # Not ``getproxies``, which also reads the settings of macOS and Windows; the second function does not if
    # a variable names a proxy.
    proxy = select_proxy(url, getproxies_environment())
    if not proxy or should_bypass_proxies(url, no_proxy=None):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        kind = parts.scheme if parts.hostname and parts.port != 0 else ""
    except ValueError:
        kind = ""
    if not kind:
        raise ConfigurationError(["a variable as HTTPS_PROXY names a proxy that is no URL (correct it)"])
    if kind not in ("http", "https"):
        raise ConfigurationError([f"the environment names a {kind} proxy (only HTTP proxies are supported)"])
    return proxy


log = logging.getLogger(__name__)

_named: set[tuple[str, str]] = set()
# A task is a forked process with a log of its own.
os.register_at_fork(after_in_child=_named.clear)


def _warn_once(connection_id: str, base_url: str) -> None:
    if (connection_id, base_url) in _named:
        return
    _named.add((connection_id, base_url))
    log.warning(
        "The connection %r does not verify certificates: an attacker on the network can read its secrets."
        " Set verify to true, or to a file with the CA certificate of the service",
        connection_id or base_url,
    )


MAX_FILE_BYTES = 1_000_000
OF_VERIFY = "verify must be true, false or the path of a file with CA certificates (the file {reason})"
OF_VARIABLE = "{name} names a file that {{reason}} (correct or unset it)"


# Triggers that start together load the certificates once.
@cached(LRUCache(128), condition=Condition())
def _context_of(certificates: str) -> ssl.SSLContext:
    """
    A context that trusts CA certificates in PEM format; kept, as to load them takes 20 ms or more.

    :raises ValueError: there are none.
    :raises ssl.SSLError: they are damaged.
    """
    if not certificates:
        raise ValueError("no certificates")
    context = ssl.create_default_context(cadata=certificates)
    context.set_alpn_protocols(["http/1.1"])
    # urllib3 does so for each connection, which is not safe while another thread opens one.
    context.set_alpn_protocols = lambda _: None  # type: ignore[assignment]
    return context


def _certificates(path: str, problem: str) -> str:
    """
    The text of a file that has at least one certificate, without what is not ASCII, such as comments.

    Users who may edit a connection name a file of any machine of Airflow. So only this opens it, if it is a
    regular file of at most 1 MB.

    :param problem: of the configuration, with ``{reason}`` for what is wrong with the file.
    :raises ConfigurationError: the file cannot be used.
    """
    try:
        _check_regular(os.stat(path))  # opening a device can have an effect
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _check_regular(os.fstat(file.fileno()))
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise OSError(EFBIG, "it is larger than 1 MB")
        text = content.decode("ascii", "ignore")
        _context_of(text)
        return text
    except (ssl.SSLError, ValueError):  # ValueError: the file is empty, or the path has a NUL
        reason = "has no certificates in PEM format, or a damaged one"
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    raise ConfigurationError([problem.format(reason=reason)])


def _check_regular(status: os.stat_result) -> None:
    if not S_ISREG(status.st_mode):
        raise OSError(EINVAL, "it is not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        raise OSError(EFBIG, "it is larger than 1 MB")


DEFAULT_TIMEOUT = 30.0
APP_GRANT = "client_credentials"
USER_GRANT = "refresh_token"
GRANTS = (APP_GRANT, USER_GRANT)
"""Where access tokens come from: the application's own, or those of a user who has logged in."""
REQUIRED = {
    "host": "set it as Base URL",
    "login": "set it as Client ID",
    "password": "set it as Client secret",
    "oauth_url": "set it as Token URL; in JSON: oauth_url of extra",
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
"""Fields of the connection's Extra, and of ``Settings`` (``oauth_url`` is ``token_url``)."""


@dataclass(frozen=True)
class Settings:
    """
    A checked connection (docs/service.md 1 and 14).

    :param base_url: base URL of the API, with scheme and without a trailing slash.
    :param client_id: public identifier of the application.
    :param client_secret: secret of the application.
    :param token_url: URL of the token endpoint, used unchanged.
    :param auth_url: base URL of the authorization page, or "" if users do not log in.
    :param scope: scope of the token for the trigger inbox (docs/service.md 14.4).
    :param inbox_path: prefix of the trigger inbox (docs/service.md 4).
    :param templates_path: path of the templates endpoint (docs/service.md 7).
    :param redirect_uri: redirect URI of the authorization-code flow, or "".
    :param timeout: seconds for a request, from the connection to the complete answer; above 0 and up to 3600.
    :param verify: True, False, or the path of a file with CA certificates.
    :param grant: where access tokens come from; see ``GRANTS``.
    :param connection_id: id of the Airflow connection; identifies its user tokens, and is not sent.
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
        Check the fields of a connection. Values of ``extra`` may be strings, as in a connection URI
        (``verify="false"``).

        :param scheme: scheme of the base URL if ``host`` has none; https by default.
        :param port: port of the base URL if ``host`` has none, or None.
        :raises ConfigurationError: names every missing or invalid field.
        """
        token_url = _text(extra.get("oauth_url"))
        secret = _text(password, "")  # a space may be part of a secret (RFC 6749, appendix A.2)
        required = {"host": host, "login": login, "password": secret, "oauth_url": token_url}
        problems = [
            f"{name} is missing ({fix})" for name, fix in REQUIRED.items() if not _text(required[name])
        ]
        if ":" in _text(login):
            problems.append("login contains a colon (a client ID has none)")
        address = base_url(_text(host), scheme, port)
        values: dict[str, Any] = {name: text for name in EXTRA_FIELDS if (text := _text(extra.get(name)))}
        values.pop("oauth_url", None)
        entered_values = {**values, "login": _text(login), "password": secret}
        for name in ("login", "password", "scope", "inbox_path", "templates_path"):
            if not entered_values.get(name, "").isprintable():
                text = "contains an invisible character, such as a line break (enter it again)"
                problems.append(f"{name} {text}")
        addresses = {"oauth_url": token_url, "host": address, "schema": scheme}
        check_addresses({**values, **addresses}, problems)
        _convert(values, extra, problems)
        if problems:
            raise ConfigurationError(problems)
        return cls(
            base_url=address,
            client_id=_text(login),
            client_secret=secret,
            token_url=token_url,
            connection_id=connection_id,
            **values,
        )

    def tls(self) -> ssl.SSLContext | None:
        """
        What verifies the certificates of the service, for both clients; None if they are not verified.

        A WARNING that they are not is logged once.

        :raises ConfigurationError: a file of the connection or of the environment cannot be used.
        """
        if self.verify is False:
            if any(urlsplit(url).scheme == "https" for url in (self.base_url, self.token_url)):
                _warn_once(self.connection_id, self.base_url)
            return None
        if isinstance(self.verify, str):
            return _context_of(_certificates(self.verify, OF_VERIFY))
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            if path := os.environ.get(name):
                return _context_of(_certificates(path, OF_VARIABLE.format(name=name)))
        import certifi

        trusted = _certificates(certifi.where(), "the file of certifi {reason}")
        # Airflow's own client trusts these too, besides the public ones.
        if path := os.environ.get("SSL_CERT_FILE"):
            trusted += "\n" + _certificates(path, OF_VARIABLE.format(name="SSL_CERT_FILE"))
        return _context_of(trusted)


def _text(value: Any, around: str = " ") -> str:
    """A string without the line breaks and invisible characters around it."""
    text = "" if value is None else str(value)
    return text.strip(around + "".join(sign for sign in set(text) if not sign.isprintable()))


def _convert(values: dict[str, Any], extra: Mapping[str, Any], problems: list[str]) -> None:
    for name in values:
        if name not in ("timeout", "verify") and not isinstance(extra[name], str):
            problems.append(f"{name} must be a string (write it in quotes)")
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
    word = _text(value)
    if word.lower() in ("true", "1", "yes"):
        return True
    if word.lower() in ("false", "0", "no"):
        return False
    try:
        _certificates(word, OF_VERIFY)
    except ConfigurationError as error:
        problems += error.problems
    return word


def without_file_reasons(error: ConfigurationError) -> ConfigurationError:
    """
    The error, which says of the file of ``verify`` only that it cannot be used.

    For users who may edit the connection, but must not learn which files the machine has.
    """
    beginning = OF_VERIFY.partition("{reason}")[0]
    unusable = OF_VERIFY.format(reason="cannot be used")
    return ConfigurationError(
        [unusable if problem.startswith(beginning) else problem for problem in error.problems]
    )


def settings_of(connection: Any, conn_id: str) -> Settings:
    """
    The checked settings of a connection.

    :raises ConfigurationError: names every missing or invalid field.
    """
    # Not ``extra_dejson``: it sends the values to mask to the supervisor, a blocking call that can
    # crash a triggerer. The provider's extra fields contain no secrets.
    try:
        extra = json.loads(connection.extra or "{}")
    except (ValueError, RecursionError):
        extra = None
    if not isinstance(extra, dict):
        raise ConfigurationError(["extra is not a JSON object (correct it)"])
    return Settings.build(
        host=connection.host,
        login=connection.login,
        password=connection.password,
        extra=extra,
        scheme=connection.schema,
        port=connection.port,
        connection_id=conn_id,
    )
