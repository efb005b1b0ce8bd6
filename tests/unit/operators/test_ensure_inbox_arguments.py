"""What the operator that ensures an inbox is given, and what it gets from the service."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider_workflow.client.errors import AuthenticationError, ConflictError
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.operators.ensuring import NAME, ensure, only_inbox, operator, same_time

__all__ = ["same_time"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "x" * 101),
        ("app_key", " "),
        ("inputs", "{}"),
        ("notification_url", "https://" + "x" * 2048),
        ("wait_until_active", "False"),
        ("recreate_failed", 1),
        ("timeout", float("inf")),
    ],
)
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        operator(**{field: value})


def test_arguments_are_templated(connected: EmulatorServer) -> None:
    texts = {name: f"{{{{ params.{name} }}}}" for name in ("name", "app_key", "action_key", "connection_id")}
    ensuring = operator(
        **texts, inputs={"region": "{{ params.region }}"}, notification_url="{{ params.url }}"
    )
    url = "https://hook.example.com/"
    params = {
        "name": "n",
        "app_key": "mail",
        "action_key": "a",
        "connection_id": 7,
        "region": "us",
        "url": url,
    }
    ensuring.render_template_fields({"params": params})
    found = ensuring.execute({})

    assert (found["name"], only_inbox(connected).notification_url) == ("n", url)
    assert only_inbox(connected).subscription == {
        "app_key": "MailAPI@1.0.0",
        "action_key": "a",
        "inputs": {"region": "us"},
        "connection_id": 7,
    }
    assert set(ensuring.template_fields_renderers) <= set(ensuring.template_fields)


def test_inputs_that_were_rendered_to_text_are_named(connected: EmulatorServer) -> None:
    ensuring = operator(inputs="{{ params.inputs }}")
    ensuring.render_template_fields({"params": {"inputs": {"region": "us"}}})

    with pytest.raises(ValueError, match=r"^inputs must be a dictionary, not a str; for a dictionary from"):
        ensuring.execute({})
    assert connected.requests == []


def test_inputs_may_be_what_another_task_returns() -> None:
    with DAG("d", schedule=None):

        @task
        def inputs() -> dict[str, str]:
            return {}

        ensuring = operator(inputs=inputs())

    assert ensuring.upstream_task_ids == {"inputs"}


def test_a_refusal_is_raised(connected: EmulatorServer) -> None:
    connected.fault("status", operation="ensure_inbox", status=403, times=None)

    with pytest.raises(AuthenticationError):
        ensure()


def test_an_inbox_that_says_no_more_than_its_id_and_status_will_do(connected: EmulatorServer) -> None:
    url = "https://example.com/told"
    bare = {"id": connected.open_inbox(NAME), "status": "active"}
    connected.fault("status", operation="ensure_inbox", status=200, json=bare)

    ensure(notification_url=url)
    assert only_inbox(connected).notification_url == url


def test_an_inbox_without_a_name_is_not_taken_for_the_one_that_has_it(connected: EmulatorServer) -> None:
    page = {"results": [{"id": "i", "status": "active"}], "next": None}
    connected.fault("status", operation="ensure_inbox", status=409)
    connected.fault("status", operation="list_inboxes", status=200, json=page)

    with pytest.raises(ConflictError):
        ensure()
