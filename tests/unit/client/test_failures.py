"""What a failure says is one line, whatever the service wrote (statuses and bodies: see ``matrix``)."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client import errors
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make
from tests.unit.client.senders import Sender


def test_no_text_of_the_service_makes_up_a_line_of_a_log(send: Sender, emulator: EmulatorServer) -> None:
    told = {"status": 404, "code": "a\nb" + "c" * 1000}
    told["detail"] = "first\r\n\x1b[31msecond \u2028 third" + "d" * 10_000
    emulator.fault("status", operation="get_inbox", status=404, json={"errors": [told]})
    with pytest.raises(errors.NotFoundError) as raised:
        send(make("get_inbox"))
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 1100
    assert "first [31msecond third" in str(raised.value)
