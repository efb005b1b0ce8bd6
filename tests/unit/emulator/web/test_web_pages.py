"""Requests that a page of another site makes in the developer's browser."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
import requests

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api

CROSS_SITE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"}
NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
PUT: tuple[str, str, Any] = ("POST", "/_emulator/messages", {"inbox": "orders", "payloads": [{}]})
REQUESTS: tuple[str, str, Any] = ("GET", "/_emulator/requests", None)
AUTHORIZE: tuple[str, str, Any] = ("GET", "/v2/authorize", None)
LIST: tuple[str, str, Any] = ("GET", "/inboxes", None)


@pytest.mark.parametrize("request_", [PUT, REQUESTS, AUTHORIZE, LIST, ("GET", "/nowhere", None)])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8765"},
        {"Host": "localhost.evil.example"},
        {"Host": "192.0.2.1"},
        {"Host": "[::1"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        CROSS_SITE,
        {**CROSS_SITE, "Sec-Fetch-Site": "same-site"},
        {**NAVIGATION, "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_a_page_of_another_site_reaches_nothing(
    emulator: EmulatorServer, api: Api, request_: tuple[str, str, Any], headers: dict[str, str]
) -> None:
    emulator.open_inbox("orders")
    response = api(*request_, headers=headers)
    assert response.status_code == 403
    assert response.json()["errors"][0]["detail"].endswith(".")
    assert (emulator.summary("orders")["messages"], emulator.requests) == ([], [])


def test_a_link_of_another_site_opens_pages_only(api: Api) -> None:
    assert api("GET", "/editor", headers=NAVIGATION).status_code == 200
    assert "unknown application" in api("GET", "/v2/authorize", headers=NAVIGATION).text
    for method, path in (("POST", "/v2/authorize"), ("GET", "/_emulator/requests"), ("GET", "/inboxes")):
        assert api(method, path, headers=NAVIGATION).status_code == 403


def test_its_own_pages_and_programs_are_answered(emulator: EmulatorServer, api: Api) -> None:
    own = {"Origin": emulator.base_url, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    for headers in (own, {"Sec-Fetch-Site": "none"}, {"Host": "localhost:8765"}, {"Host": "[::1]"}, {}):
        assert api(*REQUESTS, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("listening", "host", "status"),
    [
        ("127.0.0.1", "workflow.test", 403),
        ("0.0.0.0", "workflow.test", 403),
        ("0.0.0.0", "192.0.2.1:8765", 200),
        ("localhost", "localhost", 200),
        (socket.gethostname(), f"{socket.gethostname().upper()}:8765", 200),
    ],
)
def test_the_names_of_the_option_host_are_its_own(listening: str, host: str, status: int) -> None:
    try:
        address = socket.gethostbyname(listening).replace("0.0.0.0", "127.0.0.1")
    except OSError:
        pytest.skip(f"{listening} has no address")
    with EmulatorServer(host=listening) as server:
        url = f"http://{address}:{server.port}/_emulator/requests"
        assert requests.get(url, headers={"Host": host}, timeout=5).status_code == status


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_it_listens_on_ipv6_for_both_clients_of_the_package() -> None:
    async def status_of(url: str) -> int:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status

    with EmulatorServer(host="::1") as server:
        url = f"{server.base_url}/_emulator/requests"
        assert server.base_url == f"http://[::1]:{server.port}"
        assert requests.get(url, timeout=5).status_code == 200
        assert asyncio.run(status_of(url)) == 200
