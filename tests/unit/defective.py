"""A service that sends what the emulator sends, but for some bytes of its leases."""

from __future__ import annotations

from http.client import HTTPConnection

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.scripted import Script, ScriptedServer, answer


class DefectiveService(ScriptedServer):
    """
    Passes requests on to the emulator, and replaces bytes in its answers to lease requests.

    :param defects: what is replaced, and by what.
    """

    def __init__(self, emulator: EmulatorServer, defects: dict[bytes, bytes]) -> None:
        super().__init__()
        self.emulator = emulator
        self.defects = defects

    def reply(self, request: bytes) -> Script:
        head, _, body = request.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        method, path, _ = first.split(" ")
        passed_on = HTTPConnection(self.emulator.host, self.emulator.port)
        try:
            headers = dict(line.split(": ", 1) for line in lines)
            passed_on.request(method, path, body, headers)
            response = passed_on.getresponse()
            content = response.read()
            if path.endswith("/messages/lease"):
                for found, put in self.defects.items():
                    content = content.replace(found, put)
            return answer(response.status, content, {"Content-Type": "application/json"})
        finally:
            passed_on.close()
