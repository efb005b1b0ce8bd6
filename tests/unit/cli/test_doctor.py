"""``doctor``: a connection that is wrong in one way gets the diagnosis and the fix of that way."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from airflow_provider_workflow.cli import doctor as module
from airflow_provider_workflow.cli.doctor import Finding, Subject
from airflow_provider_workflow.cli.main import main
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from tests.unit.cli.database import Database, listening
from tests.unit.cli.diagnosing import Doctor, connect, doctor
from tests.unit.client.conftest import closed_port, scripted
from tests.unit.client.isolation import isolated
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.stores import logged_in

__all__ = ["closed_port", "connect", "doctor", "isolated", "scripted"]

USER = {"grant": "refresh_token"}


def test_a_good_connection_has_no_fault(doctor: Doctor, database: Database) -> None:
    doctor.emulator.open_inbox("orders")
    database.add_triggerer()
    database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    database.add_dag("handle")
    found = doctor.examine()
    assert found.exit_code == 0
    assert found.of("ok") == ["connection", "token", "inbox_api", "inbox orders", "triggerer", "dags"]
    assert len(found.findings) == 6
    assert found["token"]["detail"] == "the token was issued for external"
    assert found["inbox orders"]["detail"] == "active; 0 waiting, 0 leased, 0 quarantined"
    assert all(each["fix"] is None for each in found.findings)
    assert "\n0 failed, 0 warnings, 6 ok\n" in found.shown


def test_problems_are_first_and_counted(doctor: Doctor) -> None:
    found = doctor.examine(password="wrong-secret")
    said = found["token"]
    lines = found.shown.splitlines()
    assert lines[:2] == [f"failed   token: {said['detail']}", f"         -> {said['fix']}"]
    assert lines[2].startswith("warning  triggerer: ")
    assert lines[4].startswith("ok       connection: ")
    assert lines[5] == "1 failed, 1 warning, 1 ok"


def test_a_terminal_shows_colors(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31mfailed" in doctor.examine(password="wrong-secret").shown


def test_a_wrong_secret(doctor: Doctor) -> None:
    found = doctor.examine(password="wrong-secret")
    assert found.exit_code == 1
    assert found.of("failed") == ["token"]
    assert "401 (invalid_client)" in found["token"]["detail"]
    assert "correct its Client ID (login) and Client secret" in found["token"]["fix"]
    assert "inbox_api" not in found.shown


def test_a_wrong_host(doctor: Doctor, closed_port: int) -> None:
    found = doctor.examine(host=f"http://127.0.0.1:{closed_port}")
    assert found.exit_code == 1
    assert found.of("failed") == ["inbox_api"]
    assert found["inbox_api"]["fix"].startswith("check Base URL and Inbox path, and the network")
    assert found["token"]["status"] == "ok"


def test_a_wrong_scope(doctor: Doctor) -> None:
    found = doctor.examine({"scope": "workflow"})
    assert found.of("failed") == ["token"]
    assert found["token"]["detail"] == "the token was issued for workflow; trigger inboxes need external"
    assert found["token"]["fix"] == "set Scope to external, or leave it empty"


def test_a_scope_that_the_service_does_not_know(doctor: Doctor) -> None:
    found = doctor.examine({"scope": "unheard-of"})
    assert found.of("failed") == ["token"]
    assert "(invalid_scope)" in found["token"]["detail"]
    assert found["token"]["fix"] == "set Scope to external, or leave it empty"


def test_a_scope_that_was_granted_in_part(doctor: Doctor, scripted: ScriptedServer) -> None:
    scripted.token = answer(200, {"access_token": "a", "scope": "external"})
    scripted.answers = [answer(200, {"results": [], "next": None})]
    urls = {"oauth_url": f"{scripted.url}/token", "scope": "external promotions:write"}
    found = doctor.examine(urls, host=scripted.url)
    assert found.exit_code == 0
    assert found["token"]["status"] == "warning"
    assert found["token"]["detail"].endswith("issued for external, not for promotions:write")
    assert found["inbox_api"]["detail"].endswith("; there are no inboxes yet")


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
    assert "triggerer" in found.of("warning"), "what does not depend on the connection is examined too"


def test_a_connection_that_does_not_exist(doctor: Doctor) -> None:
    found = doctor.examine(None, "--conn-id", "nowhere")
    assert found.of("failed") == ["connection"]
    assert "no connection 'nowhere'" in found["connection"]["detail"]


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("http://no-such-host.invalid", "secrets are sent unencrypted"),
        ("https://no-such-host.invalid", "certificates are not verified"),
    ],
)
def test_a_service_without_tls_or_verification_is_warned_of(host: str, said: str, doctor: Doctor) -> None:
    found = doctor.examine(host=host)
    assert found["tls"]["status"] == "warning"
    assert said in found["tls"]["detail"]


def test_a_wrong_inbox_path(doctor: Doctor) -> None:
    found = doctor.examine({"inbox_path": "/wrong"})
    assert found.of("failed") == ["inbox_api"]
    assert "404" in found["inbox_api"]["detail"]
    assert found["inbox_api"]["fix"] == "check Inbox path (/wrong) and Base URL"


@pytest.mark.parametrize(
    ("path", "said"), [("/nothing", "answered with 404"), ("/_emulator/requests", "answered with 405")]
)
def test_a_wrong_token_url(path: str, said: str, doctor: Doctor) -> None:
    found = doctor.examine({"oauth_url": doctor.emulator.base_url + path})
    assert found.of("failed") == ["token"]
    assert said in found["token"]["detail"]
    assert found["token"]["fix"].startswith("check Token URL: it must be the token endpoint")


@pytest.mark.parametrize(
    ("fault", "fix"),
    [
        ({"status": 503}, "the service reports an internal error; try again later"),
        ({"status": 429, "headers": {"Retry-After": "5000"}}, "too many requests were made; try again later"),
    ],
)
@pytest.mark.parametrize(("operation", "check"), [("token", "token"), ("list_inboxes", "inbox_api")])
def test_a_service_that_fails_is_asked_once(
    operation: str, check: str, fault: dict[str, Any], fix: str, doctor: Doctor
) -> None:
    doctor.emulator.fault("status", operation=operation, times=None, **fault)
    found = doctor.examine()
    assert found.of("failed") == [check]
    assert found[check]["fix"] == fix
    assert doctor.emulator.count(operation) <= 2, "once for each way of printing"


def test_an_application_that_may_not_use_inboxes(doctor: Doctor) -> None:
    doctor.emulator.fault("status", operation="list_inboxes", status=403, times=None)
    assert "have the application allowed to use trigger inboxes" in doctor.examine()["inbox_api"]["fix"]


def test_scripts_get_lists_of_findings(doctor: Doctor, capsys: pytest.CaptureFixture[str]) -> None:
    doctor.connect({"verify": False})
    assert main(["doctor", "-o", "yaml"]) == 0
    for each in yaml.safe_load(capsys.readouterr().out):
        assert list(each) == ["check", "status", "detail", "fix"]


def test_a_space_around_the_secret_is_named_before_the_secret_is_regenerated(doctor: Doctor) -> None:
    found = doctor.examine(password="demo-secret ")
    assert found["token"]["status"] == "failed"
    assert found["token"]["fix"].startswith("the client secret begins or ends with a space: remove it")


def test_a_check_that_breaks_is_a_finding_that_quotes_nothing(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def _first(_: Subject) -> Any:
        yield Finding("first", "ok", "fine")
        raise RuntimeError("with a secret in it")

    monkeypatch.setattr(module, "CHAINS", ((_first, _first), (_first,)))
    monkeypatch.setattr(module, "NEEDED", (_first,))
    found = doctor.examine()
    assert found.exit_code == 1
    assert [each["status"] for each in found.findings] == ["failed", "failed", "ok", "ok"]
    assert found.findings[0]["detail"] == "the check itself failed: RuntimeError"


def test_a_user_who_has_logged_in(doctor: Doctor) -> None:
    settings = doctor.connect({"verify": False, **USER}).settings
    VariableStore(settings, lambda _: None).write(logged_in(doctor.emulator, 3600, "external"))
    doctor.emulator.open_inbox("orders")
    found = doctor.examine(USER)
    assert found.exit_code == 0
    assert found["inbox orders"]["status"] == "ok"


def test_a_user_who_has_not_logged_in(doctor: Doctor) -> None:
    found = doctor.examine(USER)
    assert found.of("failed") == ["user_tokens"]
    assert found["user_tokens"]["fix"] == "run: airflow-workflow login --conn-id workflow_default"
