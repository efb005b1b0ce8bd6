"""``doctor``: a connection that is wrong in one way gets the diagnosis and the fix of that way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_workflow.cli.main import main
from tests.unit.cli.database import Database, listening
from tests.unit.cli.diagnosing import Doctor, connect, doctor
from tests.unit.client.conftest import scripted
from tests.unit.client.isolation import isolated
from tests.unit.client.scripted import ScriptedServer, answer

__all__ = ["connect", "doctor", "isolated", "scripted"]


FROM_THE_SERVICE = ["host", "client", "scope", "clock", "inbox_api", "inboxes"]
OF_THIS_INSTALLATION = {"airflow", "common.messaging"}
"""What is warned of where Airflow is not the newest, or a package of it is not there."""


def test_a_good_connection_has_no_fault(doctor: Doctor, database: Database) -> None:
    doctor.emulator.open_inbox("orders")
    database.add_triggerer()
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    database.add_dag("handle")
    found = doctor.examine()
    assert found.exit_code == 0
    assert found.of("failed") + found.of("skipped") == []
    assert set(found.of("warning")) <= OF_THIS_INSTALLATION
    assert found["client"]["detail"] == "the token endpoint accepts the client ID and the client secret"
    assert found["scope"]["detail"] == "the token was issued for external"
    assert found["inbox orders"]["detail"] == "active"
    assert all((each["fix"] is None) == (each["status"] == "ok") for each in found.findings)


def test_a_line_for_people_is_status_check_detail_and_fix(doctor: Doctor) -> None:
    found = doctor.examine(password="wrong-secret")
    said = found["client"]
    assert f"failed   client: {said['detail']}\n         -> {said['fix']}\n" in found.shown


def test_a_wrong_secret(doctor: Doctor) -> None:
    found = doctor.examine(password="wrong-secret")
    assert found.exit_code == 1
    assert found.of("failed") == ["client"]
    assert "401 (invalid_client)" in found["client"]["detail"]
    assert "correct its Client ID (login) and Client secret" in found["client"]["fix"]
    assert found.of("skipped") == ["scope", "clock", "inbox_api", "inboxes"]
    assert found["inboxes"]["detail"] == "cannot be examined before client is fixed"


def test_a_wrong_host(doctor: Doctor) -> None:
    found = doctor.examine(host="http://no-such-host.invalid")
    assert found.exit_code == 1
    assert found.of("failed") == ["host"]
    assert found["host"]["detail"] == "the name no-such-host.invalid cannot be resolved"
    assert "check the spelling of Base URL" in found["host"]["fix"]
    assert found["client"]["status"] == found["scope"]["status"] == "ok"
    assert found.of("skipped") == ["inbox_api", "inboxes"]


def test_a_wrong_scope(doctor: Doctor) -> None:
    found = doctor.examine({"scope": "workflow"})
    assert found.exit_code == 1
    assert found.of("failed") == ["scope", "inbox_api"]
    assert found["client"]["status"] == "ok"
    assert found["scope"]["detail"] == "the token was issued for workflow; trigger inboxes need external"
    assert found["scope"]["fix"] == "set Scope to external, or leave it empty"
    assert "401 (invalid_audience)" in found["inbox_api"]["detail"]
    assert found.of("skipped") == ["inboxes"]


def test_a_scope_that_the_service_does_not_know(doctor: Doctor) -> None:
    found = doctor.examine({"scope": "unheard-of"})
    assert found.of("failed") == ["scope"]
    assert found["client"]["detail"].endswith("but not the scope")
    assert "(invalid_scope)" in found["scope"]["detail"]
    assert found.of("skipped") == ["inbox_api", "inboxes"]


def test_a_scope_that_was_granted_in_part(doctor: Doctor, scripted: ScriptedServer) -> None:
    scripted.token = answer(200, {"access_token": "a", "scope": "external"})
    scripted.answers = [answer(200, {"results": [], "next": None})]
    urls = {"oauth_url": f"{scripted.url}/token", "scope": "external promotions:write"}
    found = doctor.examine(urls, host=scripted.url)
    assert found.exit_code == 0
    assert found["scope"]["status"] == "warning"
    assert "promotions:write was requested but not granted" in found["scope"]["detail"]


def test_a_service_that_tells_no_time_and_no_scope(doctor: Doctor, scripted: ScriptedServer) -> None:
    scripted.token = answer(200, {"access_token": "a"})
    scripted.answers = [answer(200, {"results": [], "next": None})]
    found = doctor.examine({"oauth_url": f"{scripted.url}/token"}, host=scripted.url)
    assert found.exit_code == 0
    assert found["scope"]["status"] == "ok"
    assert "clock" not in found.shown
    assert found["inboxes"]["detail"] == "there are no inboxes yet"


def test_a_token_that_only_another_service_takes(doctor: Doctor, scripted: ScriptedServer) -> None:
    error = {"errors": [{"status": 401, "code": "invalid_audience", "detail": "no"}]}
    scripted.answers = [answer(401, error)]
    found = doctor.examine(host=scripted.url)
    assert found.of("failed") == ["inbox_api"]
    assert "take Base URL (host) and Token URL from one service" in found["inbox_api"]["fix"]


def test_all_fields_that_are_missing_or_wrong_are_named_at_once(doctor: Doctor) -> None:
    found = doctor.examine({"oauth_url": "", "timeout": "soon", "grant": "any"}, password="")
    assert found.of("failed") == ["connection"]
    detail = found["connection"]["detail"]
    assert [name in detail for name in ("password", "oauth_url", "timeout", "grant")] == [True] * 4
    assert set(FROM_THE_SERVICE) < set(found.of("skipped"))
    assert "fernet_key" in found.of("ok"), "what does not depend on the connection is examined all the same"


def test_a_connection_that_does_not_exist(doctor: Doctor) -> None:
    found = doctor.examine(None, "--conn-id", "nowhere")
    assert found.of("failed") == ["connection"]
    assert "no connection 'nowhere'" in found["connection"]["detail"]


def test_a_connection_of_another_type(doctor: Doctor) -> None:
    found = doctor.examine(conn_type="http")
    assert found.exit_code == 0
    assert "its type is http" in found["connection"]["detail"]
    assert found["connection"]["status"] == "warning"


def test_a_wrong_inbox_path(doctor: Doctor) -> None:
    found = doctor.examine({"inbox_path": "/wrong"})
    assert found.of("failed") == ["inbox_api"]
    assert "404" in found["inbox_api"]["detail"]
    assert found["inbox_api"]["fix"] == "check Inbox path (/wrong) and Base URL"


@pytest.mark.parametrize(
    ("path", "said"), [("/nothing", "answered with 404"), ("/_emulator/clock", "answered with 405")]
)
def test_a_wrong_token_url(path: str, said: str, doctor: Doctor) -> None:
    found = doctor.examine({"oauth_url": doctor.emulator.base_url + path})
    assert found.of("failed") == ["client"]
    assert said in found["client"]["detail"]
    assert found["client"]["fix"].startswith("check Token URL: it must be the token endpoint")


def test_a_token_url_that_answers_with_a_page(doctor: Doctor, scripted: ScriptedServer) -> None:
    scripted.token = answer(200, b"<h1>Welcome</h1>", {"Content-Type": "text/html"})
    found = doctor.examine({"oauth_url": f"{scripted.url}/token"})
    assert "body that is not JSON (text/html" in found["client"]["detail"]
    assert "Token URL" in found["client"]["fix"]


@pytest.mark.parametrize(
    ("fault", "fix"),
    [
        ({"status": 503}, "the service reports an internal error; try again later"),
        ({"status": 429, "headers": {"Retry-After": "5000"}}, "too many requests were made; try again later"),
    ],
)
@pytest.mark.parametrize(("operation", "check"), [("token", "client"), ("list_inboxes", "inbox_api")])
def test_a_service_that_fails_is_asked_once(
    operation: str, check: str, fault: dict[str, Any], fix: str, doctor: Doctor
) -> None:
    doctor.emulator.fault("status", operation=operation, times=None, **fault)
    found = doctor.examine()
    assert found.of("failed") == [check]
    assert found[check]["fix"] == fix
    assert doctor.emulator.count(operation) == 2, "once for each way of printing"


def test_an_application_that_may_not_use_inboxes(doctor: Doctor) -> None:
    doctor.emulator.fault("status", operation="list_inboxes", status=403, times=None)
    assert "have the application allowed to use trigger inboxes" in doctor.examine()["inbox_api"]["fix"]


@pytest.mark.parametrize(("seconds", "way"), [(90, "behind"), (-90, "ahead")])
def test_clocks_that_differ(seconds: float, way: str, doctor: Doctor) -> None:
    doctor.emulator.store.clock.advance(seconds)
    found = doctor.examine()
    assert found.exit_code == 0
    assert found["clock"]["status"] == "warning"
    assert found["clock"]["detail"].endswith(f"s apart: this one is {way}")


def test_yaml_is_given_as_well(doctor: Doctor, capsys: pytest.CaptureFixture[str]) -> None:
    doctor.connect({"verify": False})
    assert main(["doctor", "-o", "yaml"]) == 0
    assert "- check: connection\n  status: ok\n" in capsys.readouterr().out


def test_scripts_get_lists_of_findings(doctor: Doctor, capsys: pytest.CaptureFixture[str]) -> None:
    doctor.connect({"verify": False})
    main(["doctor", "-o", "json"])
    for each in json.loads(capsys.readouterr().out):
        assert list(each) == ["check", "status", "detail", "fix"]
        assert each["status"] in ("ok", "warning", "failed", "skipped")


def test_a_space_around_the_secret_is_named_before_the_secret_is_regenerated(doctor: Doctor) -> None:
    found = doctor.examine(password="demo-secret ")
    assert found["client"]["status"] == "failed"
    assert found["client"]["fix"].startswith("the client secret begins or ends with a space: remove it")


def test_a_line_break_after_the_secret_is_no_part_of_it(doctor: Doctor) -> None:
    assert doctor.examine(password="demo-secret\n")["client"]["status"] == "ok"
