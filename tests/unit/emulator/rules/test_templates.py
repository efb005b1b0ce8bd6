"""Workflow templates."""

from __future__ import annotations

from airflow_provider_workflow.emulator.rules.workflows import templates


def test_five_come_by_default_with_every_field() -> None:
    found = templates("http://host")
    assert len(found) == 5
    fields = "id title slug status description description_plain description_raw url create_url type steps"
    assert set(found[0]) == set(fields.split())
    assert set(found[0]["steps"][0]) == {"id", "uuid", "title", "slug", "api", "label"}


def test_pages_cover_everything_once_and_end_short() -> None:
    seen: list[int] = []
    while page := templates("http://host", limit=100, offset=len(seen)):
        seen += [each["id"] for each in page]
    assert len(seen) == len(set(seen)) == 14 * 13


def test_templates_are_filtered_by_all_the_apps() -> None:
    found = templates("http://host", ["shop", "mail"], limit=100)
    assert [{step["slug"] for step in each["steps"]} for each in found] == [{"shop", "mail"}] * 2
    assert templates("http://host", ["unheard-of"]) == []
