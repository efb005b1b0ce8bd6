"""``guess`` and ``templates`` at the command line (docs/service.md 7, 11.3 and 13)."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli

TEXT = "When an order arrives in the shop, add a row to the spreadsheet"


def test_a_guess_shows_its_title_its_address_and_its_steps(cli: Cli) -> None:
    shown = cli("guess", TEXT)

    assert (shown.code, shown.err) == (0, "")
    assert "New Order | Shop " in shown.out
    assert "/editor?step=ShopAPI" in shown.out


def test_a_script_gets_the_guess_as_the_service_gave_it(cli: Cli) -> None:
    found = cli("guess", TEXT, "-o", "json").json

    assert found["prefilled_url"].endswith("/editor?step=ShopAPI%401.0.0&step=SpreadsheetAPI%401.0.0")
    assert [each["step"]["app"] for each in found["steps"]] == ["Shop", "Spreadsheet"]


def test_a_text_that_describes_no_workflow_is_refused_with_the_reason(cli: Cli) -> None:
    shown = cli("guess", "blah", "-o", "json")

    assert (shown.code, shown.out) == (1, "")
    assert "does not describe a workflow" in shown.err


def test_an_empty_text_is_wrong_usage(cli: Cli, emulator: EmulatorServer) -> None:
    assert cli("guess", " ").code == 2
    assert emulator.count("guess") == 0


def test_templates_are_listed(cli: Cli) -> None:
    shown = cli("templates", "--apps", "shop, spreadsheet", "--limit", "1")

    assert shown.code == 0
    assert "Spreadsheet" in shown.out
    (one,) = cli("templates", "--apps", "shop,spreadsheet", "--limit", "1", "-o", "json").json
    assert {step["api"] for step in one["steps"]} == {"ShopAPI@1.0.0", "SpreadsheetAPI@1.0.0"}
    assert len(cli("templates", "-o", "json").json) > 100


def test_templates_of_unknown_apps_are_none(cli: Cli) -> None:
    shown = cli("templates", "--apps", "nothing", "-o", "json")

    assert (shown.code, shown.json) == (0, [])
    assert cli("templates", "--apps", "nothing").out == "No data found\n"


@pytest.mark.parametrize("more", [("--limit", "0"), ("--apps", "a,,b")])
def test_arguments_out_of_range_are_wrong_usage(
    cli: Cli, emulator: EmulatorServer, more: tuple[str, str]
) -> None:
    assert cli("templates", *more).code == 2
    assert emulator.count("list_templates") == 0
