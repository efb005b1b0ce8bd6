"""A file that a connection or the environment names for certificates is opened only if it is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_workflow.client.errors import ConfigurationError
from tests.unit import odd_files
from tests.unit.hooks.conftest import Connect

FILES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@pytest.mark.parametrize("kind", odd_files.KINDS)
def test_verify_names_a_file_of_certificates_or_the_connection_is_invalid(
    connect: Connect, tmp_path: Path, kind: str
) -> None:
    with odd_files.made(kind, tmp_path) as path:
        hook = connect({"verify": path})
        with pytest.raises(ConfigurationError) as raised:
            hook.list_inboxes()
    (problem,) = raised.value.problems
    assert odd_files.KINDS[kind] in problem
    assert problem.startswith("verify must be true, false or the path of a file with CA certificates")


@pytest.mark.parametrize("kind", odd_files.KINDS)
async def test_a_trigger_says_the_same(connect: Connect, tmp_path: Path, kind: str) -> None:
    with odd_files.made(kind, tmp_path) as path:
        hook = connect({"verify": path})
        with pytest.raises(ConfigurationError, match=odd_files.KINDS[kind]):
            async with hook.async_client():
                pass


@pytest.mark.parametrize("variable", FILES)
@pytest.mark.parametrize("kind", odd_files.KINDS)
async def test_a_variable_of_the_environment_names_a_file_of_certificates_or_itself_as_wrong(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
) -> None:
    hook = connect()
    with odd_files.made(kind, tmp_path) as path:
        monkeypatch.setenv(variable, path)
        with pytest.raises(ConfigurationError) as raised:
            hook.list_inboxes()
        with pytest.raises(ConfigurationError) as in_trigger:
            async with hook.async_client():
                pass
    (problem,) = raised.value.problems
    assert problem == f"{variable} names a file that {odd_files.KINDS[kind]} (correct or unset it)"
    assert in_trigger.value.problems == [problem]


@pytest.mark.parametrize("kind", [kind for kind in odd_files.KINDS if kind != "missing"])
def test_a_folder_of_the_environment_has_files_of_certificates_only(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "certs"
    folder.mkdir()
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    with odd_files.made(kind, tmp_path) as path:
        (folder / "0123abcd.0").symlink_to(path)
        with pytest.raises(ConfigurationError) as raised:
            connect().list_inboxes()
    (problem,) = raised.value.problems
    assert problem == (
        f"SSL_CERT_DIR names a folder with the file 0123abcd.0, which {odd_files.KINDS[kind]}"
        " (correct or unset it)"
    )


@pytest.mark.parametrize("kind", ["missing", "empty", "pipe"])
def test_a_folder_of_the_environment_is_a_folder(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with odd_files.made(kind, tmp_path) as path:
        monkeypatch.setenv("SSL_CERT_DIR", path)
        with pytest.raises(ConfigurationError, match="SSL_CERT_DIR names no folder that can be read"):
            connect().list_inboxes()


def test_a_connection_that_verifies_nothing_reads_no_file_of_the_environment(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (*FILES, "SSL_CERT_DIR"):
        monkeypatch.setenv(variable, "/dev/zero")
    assert connect({"verify": False}).list_inboxes() == []
