"""Client and emulator state the service's routes independently; here they are held against each other."""

from __future__ import annotations

import inspect
import re

from airflow_provider_workflow.client import api
from airflow_provider_workflow.emulator.web.app import OPERATIONS
from tests.unit.client.calls import OPERATIONS as CALLS
from tests.unit.client.calls import make

PAGES_OF_A_BROWSER = {"authorize", "editor"}
SERVICE = [each for each in OPERATIONS if each.family != "control"]


def test_the_list_of_calls_of_these_tests_is_complete() -> None:
    functions = inspect.getmembers(api, inspect.isfunction)
    public = {name: made for name, made in functions if not name.startswith("_")}
    makers = {name for name, made in public.items() if "Call[" in made.__annotations__.get("return", "")}
    assert makers == set(CALLS)


def test_the_emulator_has_no_route_of_the_service_without_a_call() -> None:
    reached = {operation for operation, _ in CALLS.values()}
    assert {each.name for each in SERVICE} - reached == PAGES_OF_A_BROWSER


def test_call_and_route_belong_to_the_same_rate_limit() -> None:
    limits = {(each.name, each.family) for each in SERVICE if each.name not in PAGES_OF_A_BROWSER}

    assert limits == {(operation, make(name).family.value) for name, (operation, _) in CALLS.items()}


def test_the_emulator_serves_both_published_inbox_prefixes() -> None:
    prefixes = {re.sub(r"/inboxes.*", "", each.path) for each in SERVICE if each.family == "inbox"}
    assert prefixes == {"/trigger-inbox/v1", "/trigger-inbox/api/v1"}
