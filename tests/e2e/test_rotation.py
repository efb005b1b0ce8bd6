"""A client secret that is changed while a listener waits: the old one dies at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.e2e.stage import Inbox, Stage
from tests.marks import Marks

CONN_ID = "workflow_rotated"


@pytest.fixture
def service(marks: Marks) -> Iterator[EmulatorServer]:
    """A service whose secret may be changed: that of the other tests has one application for all."""
    with EmulatorServer(client_secret=marks.new("first secret")) as service:
        yield service


@pytest.fixture
def connect(stage: Stage, service: EmulatorServer) -> Iterator[Callable[[], None]]:
    """Writes the secret of the moment into the connection, which is in Airflow's database."""
    api, path = stage.airflow.api, f"connections/{CONN_ID}"

    def write(method: str = "PATCH", to: str = path) -> None:
        fields = service.connection()
        body = {**fields, "connection_id": CONN_ID, "extra": json.dumps(fields["extra"])}
        api.request(method, to, json=body)

    write("POST", "connections")
    yield write
    api.request("DELETE", path)


def test_no_message_is_lost_while_a_client_secret_is_changed(
    stage: Stage, service: EmulatorServer, connect: Callable[[], None], marks: Marks
) -> None:
    inbox = Inbox.open(service, "rotation")
    run = stage.start("listener_through", inbox, conn_id=CONN_ID).reaches("deferred")
    stage.until(lambda: inbox.requests("lease"), "the trigger to look")

    tokens = service.count("token")
    service.store.configure(client_secret=marks.new("second secret"))
    service.store.tokens.expire()
    ids = inbox.put(*({"n": n} for n in range(5)))
    stage.until(lambda: service.count("token") > tokens, "the trigger to need the new secret")
    assert inbox.counts["available"] == 5
    connect()

    stage.wait_until_succeeded(inbox, ids)
    assert run.succeeds()["started"]["count"] == 5
    assert inbox.all_acknowledged()
    assert inbox.lease_counts == [1]
