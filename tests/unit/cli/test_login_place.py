"""Which redirect URIs lead to this machine, and what a browser calls it then."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.cli.login import Place


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("http://127.0.0.1:8080/back", Place("127.0.0.1", 8080, "/back")),
        ("http://LOCALHOST/back?x=1", Place("localhost", 80, "/back")),
        ("http://127.9.9.9:1/", Place("127.9.9.9", 1, "/")),
        ("http://[::1]:8080/back", Place("::1", 8080, "/back")),
        ("https://localhost:8080/back", None),
        ("http://0.0.0.0:8080/back", None),
        ("http://localhost.example.com/back", None),
    ],
)
def test_which_redirect_uris_lead_to_this_machine(uri: str, place: Place | None) -> None:
    assert Place.of(uri) == place


def test_a_port_that_goes_without_saying_may_be_said() -> None:
    place = Place("localhost", 80, "/")
    assert place.is_named_by("localhost")
    assert place.is_named_by("LocalHost:80")
    assert not place.is_named_by("localhost:8080")
