"""Certificates that do not verify: no request leaves, and no attempt is made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_workflow.client import errors
from tests.unit.client import certificates
from tests.unit.client.matrix.cells import Expected, Service, check
from tests.unit.client.senders import SENDERS


class Authority:
    """
    A server with a certificate, and the file that makes a client trust it.

    :param days: from when to when the certificate is valid, counted from now.
    """

    def __init__(self, folder: Path, days: tuple[int, int] = (-1, 1)) -> None:
        folder.mkdir()
        context, trusted = certificates.make(folder, days)
        self.service = Service(tls=context)
        self.trusted = str(trusted)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Authority]]:
    folder = tmp_path_factory.mktemp("authorities")
    made = {
        "good": Authority(folder / "good"),
        "expired": Authority(folder / "expired", (-2, -1)),
        "of tomorrow": Authority(folder / "tomorrow", (1, 2)),
    }
    with made["good"].service, made["expired"].service, made["of tomorrow"].service:
        yield made


CASES = {
    # whose server, whose certificate is trusted, the name that is called
    "self-signed": ("good", "expired", "127.0.0.1"),
    "expired": ("expired", "expired", "127.0.0.1"),
    "not yet valid": ("of tomorrow", "of tomorrow", "127.0.0.1"),
    "of another name": ("good", "good", "localhost"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", SENDERS)
def test_a_certificate_that_does_not_verify_is_one_permanent_error(
    kind: str, case: str, authorities: dict[str, Authority]
) -> None:
    server, trusted, host = CASES[case]
    service = authorities[server].service
    before = service.connections
    url = f"https://{host}:{service.port}"
    outcome = service.play(kind, "get_inbox", b"", base_url=url, verify=authorities[trusted].trusted)
    says = (f"the certificate of {host}:{service.port} does not verify",)
    due = Expected(errors.TransportError, says, 0, has={"sent": False, "permanent": True})
    check({case: due.complaint(outcome)})
    assert outcome.naps == []
    assert service.connections - before == 1


@pytest.mark.parametrize("case", ["self-signed", "of another name"])
@pytest.mark.parametrize("kind", SENDERS)
def test_no_secret_is_shown_to_a_token_endpoint_that_does_not_verify(
    kind: str, case: str, authorities: dict[str, Authority]
) -> None:
    server, trusted, host = CASES[case]
    service = authorities[server].service
    url = f"https://{host}:{service.port}/token"
    outcome = service.play(
        kind, "get_inbox", b"", token_url=url, verify=authorities[trusted].trusted, warm=False
    )
    says = (f"the certificate of {host}:{service.port} does not verify",)
    check({case: Expected(errors.TransportError, says, 0, 0, {"permanent": True}).complaint(outcome)})
