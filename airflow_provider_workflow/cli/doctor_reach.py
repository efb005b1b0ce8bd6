"""Whether an address can be reached, found out step by step: its name, its port, its certificate."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

from airflow_provider_workflow.client.environment import proxy_for
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import host_of

LONGEST_SECONDS = 10.0
"""For each of connecting and the TLS handshake; less where the connection's ``timeout`` is less."""

TRUST = "set Verify TLS to a file with the certificate of the authority that signed it"
UNTRUSTED = ("is signed by an authority that is not trusted here", TRUST)
CERTIFICATES = {
    9: ("is not valid yet", "set this machine's clock"),
    10: ("has expired", "have it renewed by whoever runs the service, or set this machine's clock"),
    18: ("is signed by itself", TRUST),
    19: UNTRUSTED,
    20: UNTRUSTED,
    21: UNTRUSTED,
    62: ("belongs to another name", "write {field} with the name that the certificate has"),
    64: ("belongs to another address", "write {field} with the name that the certificate has"),
}
"""What is wrong with a certificate, and its cure, by the ``X509_V_ERR`` number of OpenSSL."""


class Unreachable(Exception):
    """
    An address that cannot be reached.

    :param cure: what to do about it.
    """

    def __init__(self, detail: str, cure: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.cure = cure


def reach(field: str, url: str, settings: Settings) -> str:
    """
    Connect to an address, as far as TLS goes; no request is sent.

    :param field: how the connection's field is named in a cure.
    :return: what was seen.
    :raises Unreachable: it cannot be reached.
    :raises ConfigurationError: the environment names a proxy that cannot be used.
    """
    proxy = proxy_for(url)
    target = proxy or url
    if proxy:
        field = "the proxy of the environment (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)"
    parts = urlsplit(target)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    name = f"{host}:{port}"
    seconds = min(settings.timeout, LONGEST_SECONDS)
    connection = _connected(field, host, port, seconds)
    with connection:
        if proxy:
            return f"the proxy {name} answers, through which {host_of(url)} is reached"
        if parts.scheme == "http":
            return f"{name} answers, without TLS"
        return f"{name} answers, {_secured(field, connection, host, name, settings)}"


def _connected(field: str, host: str, port: int, seconds: float) -> socket.socket:
    name = f"{host}:{port}"
    try:
        return socket.create_connection((host, port), seconds)
    except (socket.gaierror, UnicodeError):
        cure = f"check the spelling of {field}, and the name service of this machine"
        raise Unreachable(f"the name {host} is not known here", cure) from None
    except ConnectionRefusedError:
        cure = f"check the port in {field}, and that the service runs"
        raise Unreachable(f"{name} refuses connections: nothing listens there", cure) from None
    except TimeoutError:
        cure = f"check {field}, and the firewall or proxy on the way"
        raise Unreachable(f"{name} gave no connection within {seconds:g} s", cure) from None
    except OSError as error:
        cure = f"check {field}, and the network of this machine"
        raise Unreachable(f"{name} cannot be reached: {error.strerror}", cure) from None


def _secured(field: str, connection: socket.socket, host: str, name: str, settings: Settings) -> str:
    context = tls_context(settings)
    try:
        with context.wrap_socket(connection, server_hostname=host) as tls:
            unverified = "" if context.check_hostname else ", its certificate not verified"
            return f"{tls.version()}{unverified}"
    except ssl.SSLCertVerificationError as error:
        unknown = (f"does not verify ({error.verify_message})", TRUST)
        what, cure = CERTIFICATES.get(error.verify_code, unknown)
        raise Unreachable(f"the certificate of {name} {what}", cure.format(field=field)) from None
    except TimeoutError:
        raise Unreachable(*_no_tls(field, name, "it does not answer")) from None
    except OSError as error:  # of ssl too; its reason is a name such as WRONG_VERSION_NUMBER
        raise Unreachable(*_no_tls(field, name, getattr(error, "reason", None) or error.strerror)) from None


def _no_tls(field: str, name: str, reason: object) -> tuple[str, str]:
    cure = f"check the port in {field}; where the service speaks no TLS, {field} begins with http://"
    return f"{name} answers, but makes no secure connection: {reason}", cure


def tls_context(settings: Settings) -> ssl.SSLContext:
    """
    What certificates are verified with, as the senders do it.

    :raises ConfigurationError: the environment names no file with CA certificates.
    :raises OSError: the file of CA certificates cannot be used.
    """
    make: Callable[..., ssl.SSLContext] = ssl.create_default_context
    if (ca_file := settings.ca_file()) is not None:
        return make(cafile=ca_file)
    context = make()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
