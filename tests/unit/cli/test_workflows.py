"""``guess`` and ``templates`` (docs/service.md 7 and 13)."""

from __future__ import annotations

from tests.unit.cli.conftest import Cli


def test_a_guess_is_shown_with_its_link_and_steps_and_whole_to_a_script(cli: Cli) -> None:
    text = "When an order arrives in the shop, add a row to the spreadsheet"
    result = cli("guess", text)
    assert (result.code, result.err) == (0, "")
    assert "New Order | Shop " in result.out
    assert "/editor?step=ShopAPI" in result.out

    result = cli("guess", text, "-o", "json").json
    assert result["prefilled_url"].endswith("/editor?step=ShopAPI%401.0.0&step=SpreadsheetAPI%401.0.0")
    assert [step["step"]["app"] for step in result["steps"]] == ["Shop", "Spreadsheet"]


def test_templates_of_apps_are_listed(cli: Cli) -> None:
    arguments = ("templates", "--apps", "shop, spreadsheet", "--limit", "1")
    result = cli(*arguments)
    assert result.code == 0
    assert "Spreadsheet" in result.out
    (one,) = cli(*arguments, "-o", "json").json
    assert {step["api"] for step in one["steps"]} == {"ShopAPI@1.0.0", "SpreadsheetAPI@1.0.0"}
    assert len(cli("templates", "-o", "json").json) > 100
