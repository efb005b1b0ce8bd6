"""What was typed, checked: every fault names the option and the cure."""

from __future__ import annotations

import argparse
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_workflow.receiver import addresses, options
from airflow_provider_workflow.receiver.addresses import Addresses
from airflow_provider_workflow.receiver.airflow_token import Credentials
from airflow_provider_workflow.receiver.app import Settings


def settings_of(args: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """
    Check the arguments.

    :param environment: holds the secrets that no file holds.
    :raises ValueError: one is missing or wrong.
    """
    if not args.airflow_url:
        raise ValueError("--airflow-url is missing: give the address of Airflow's API server")
    _check_certificates(args.airflow_ca_file)
    routes = routes_of(args.route)
    return Settings(
        routes=routes,
        addresses=_addresses(args, environment, routes),
        airflow_url=_checked_url("--airflow-url", args.airflow_url),
        credentials=_credentials(args, environment),
        ca_file=args.airflow_ca_file,
    )


def urls_of(args: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, str]:
    """
    The address of each inbox below the public one.

    :param environment: holds the secret that no file holds.
    :raises ValueError: an argument is missing or wrong.
    """
    routes = routes_of(args.route)
    public = _checked_url("--show-urls", args.show_urls)
    paths = _addresses(args, environment, routes)
    return {inbox: public + paths.path(inbox) for inbox in routes}


def routes_of(given: Sequence[str]) -> dict[str, str]:
    """
    The dispatch DAG of each inbox.

    :raises ValueError: one is no ``INBOX=DAG_ID``, or an inbox has two.
    """
    routes: dict[str, str] = {}
    for route in given:
        # No id of a DAG holds an equals sign; the name of an inbox may.
        inbox, _, dag_id = route.rpartition("=")
        if not inbox or not inbox.isprintable() or not re.fullmatch(r"[\w.-]+", dag_id):
            raise ValueError(f"--route {route!r} is not INBOX=DAG_ID, such as orders=dispatch_orders")
        if routes.setdefault(inbox, dag_id) != dag_id:
            raise ValueError(f"--route: the inbox {inbox!r} has two DAGs; one dispatch DAG serves an inbox")
    return routes


def _addresses(
    args: argparse.Namespace, environment: Mapping[str, str], routes: Mapping[str, str]
) -> Addresses:
    text = environment.get(options.SECRET)
    if text and args.secret_file:
        raise ValueError(f"--secret-file and {options.SECRET} are both given: give one of them")
    if text:
        return Addresses(addresses.usable(text, options.SECRET), routes)
    if not args.secret_file:
        raise ValueError(
            f"--secret-file is missing: give a file (made at the first start), or {options.SECRET}"
        )
    return Addresses(addresses.read_or_make(Path(args.secret_file)), routes)


def _credentials(args: argparse.Namespace, environment: Mapping[str, str]) -> Credentials:
    password = _reader("--airflow-password-file", args.airflow_password_file, environment, options.PASSWORD)
    token = _reader("--airflow-token-file", args.airflow_token_file, environment, options.TOKEN)
    if token and (password or args.airflow_username):
        raise ValueError("--airflow-token-file: give a token, or a user name and a password, not both")
    if bool(password) != bool(args.airflow_username):
        raise ValueError(
            "--airflow-username needs a password, and a password a user name"
            f" (--airflow-password-file, or {options.PASSWORD} in the environment)"
        )
    return Credentials(args.airflow_username, password, token)


def _reader(
    flag: str, path: str | None, environment: Mapping[str, str], name: str
) -> Callable[[], str] | None:
    value = environment.get(name)
    if path and value:
        raise ValueError(f"{flag} and {name} are both given: give one of them")
    if path:
        if not Path(path).is_file():
            raise ValueError(f"{flag} names no file")
        return Path(path).read_text
    return (lambda: value) if value else None


def _check_certificates(path: str | None) -> None:
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        reason = "it holds none" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(f"--airflow-ca-file names no file with CA certificates: {reason}") from None


def _checked_url(flag: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(sign.isspace() for sign in url):
        raise ValueError(f"{flag} is no web address (write it as https://name/path)")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"{flag} must hold no credentials and no query, only https://name/path")
    return url.rstrip("/")
