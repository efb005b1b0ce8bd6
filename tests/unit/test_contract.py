"""Client and emulator state the service's routes independently; here they are held against each other."""

from __future__ import annotations

import inspect
import re

from starlette.routing import compile_path

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.web.app import OPERATIONS
from tests.unit.client.calls import OPERATIONS as CALLS
from tests.unit.client.calls import make

PAGES_OF_A_BROWSER = {"authorize", "editor"}
SERVICE = [each for each in OPERATIONS if each.family != "control"]


def routes_to(method: str, path: str) -> set[str]:
    return {each.name for each in SERVICE if each.method == method and compile_path(each.path)[0].match(path)}


def test_the_list_of_calls_of_these_tests_is_complete() -> None:
    functions = inspect.getmembers(api, inspect.isfunction)
    public = {name: made for name, made in functions if not name.startswith("_")}
    makers = {name for name, made in public.items() if "Call[" in made.__annotations__.get("return", "")}
    assert makers == set(CALLS)


def test_each_call_has_its_route_in_the_emulator() -> None:
    calls = {name: make(name) for name in CALLS}

    assert [name for name, call in calls.items() if call.name != name] == []
    client = WorkflowClient(Settings("https://a", "an-id", "a-secret", "https://a/oauth/token"))
    paths = {name: client.build(call).url.removeprefix("https://a") for name, call in calls.items()}
    routes = {name: routes_to(call.method, paths[name]) for name, call in calls.items()}
    assert [name for name, (operation, _) in CALLS.items() if operation not in routes[name]] == []


def test_the_emulator_has_no_route_of_the_service_without_a_call() -> None:
    reached = {operation for operation, _ in CALLS.values()}
    assert {each.name for each in SERVICE} - reached == PAGES_OF_A_BROWSER


def test_call_and_route_belong_to_the_same_rate_limit() -> None:
    limits = {(each.name, each.family) for each in SERVICE if each.name not in PAGES_OF_A_BROWSER}

    assert limits == {(operation, make(name).family.value) for name, (operation, _) in CALLS.items()}


def test_the_emulator_serves_both_published_inbox_prefixes() -> None:
    prefixes = {re.sub(r"/inboxes.*", "", each.path) for each in SERVICE if each.family == "inbox"}
    assert prefixes == {"/trigger-inbox/v1", "/trigger-inbox/api/v1"}


def test_the_authorization_page_is_where_the_client_sends_browsers() -> None:
    settings = Settings(
        "https://a", "id", "s", "https://a/t", auth_url="https://a", redirect_uri="https://b/back"
    )
    url = api.authorization_url(settings, scope="workflow", state="x")
    assert routes_to("GET", url.removeprefix("https://a").partition("?")[0]) == {"authorize"}
