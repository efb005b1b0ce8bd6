"""Which redirect URIs lead to this machine, and what a browser calls it then."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.cli.login import LocalEndpoint


@pytest.mark.parametrize(
    ("uri", "endpoint"),
    [
        ("http://127.0.0.1:8080/back", LocalEndpoint("127.0.0.1", 8080, "/back")),
        ("http://LOCALHOST/back?x=1", LocalEndpoint("localhost", 80, "/back")),
        ("http://127.9.9.9:1/", LocalEndpoint("127.9.9.9", 1, "/")),
        ("http://[::1]:8080/back", LocalEndpoint("::1", 8080, "/back")),
        ("https://localhost:8080/back", None),
        ("http://0.0.0.0:8080/back", None),
        ("http://localhost.example.com/back", None),
    ],
)
def test_which_redirect_uris_lead_to_this_machine(uri: str, endpoint: LocalEndpoint | None) -> None:
    assert LocalEndpoint.of(uri) == endpoint


def test_a_port_that_goes_without_saying_may_be_said() -> None:
    endpoint = LocalEndpoint("localhost", 80, "/")
    assert endpoint.matches_host_header("localhost")
    assert endpoint.matches_host_header("LocalHost:80")
    assert not endpoint.matches_host_header("localhost:8080")
