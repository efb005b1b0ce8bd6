"""Airflow's own UI, as it is installed, with answers of a fake API server around the page "Inboxes"."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import airflow_provider_workflow

STATIC = Path(airflow_provider_workflow.__file__).parent / "plugin" / "static"
CONFIG = {
    "auto_refresh_interval": 3,
    "dashboard_alert": [],
    "default_wrap": False,
    "enable_swagger_ui": True,
    "external_log_name": None,
    "fallback_page_limit": 100,
    "hide_paused_dags_by_default": False,
    "instance_name": "Airflow",
    "multi_team": False,
    "page_size": 50,
    "require_confirmation_dag_change": False,
    "show_external_log_redirect": False,
    "test_connection": "Disabled",
    "theme": None,
}
"""Airflow's own settings, as its UI asks for them."""


def airflow_ui() -> Path | None:
    """The directory of the installed Airflow's UI; None without one."""
    airflow = find_spec("airflow")
    places = airflow.submodule_search_locations if airflow else None
    dist = Path(places[0]) / "ui" / "dist" if places else None
    return dist if dist and (dist / "index.html").is_file() else None


@dataclass(frozen=True)
class Request:
    """
    What the page sent.

    :param path: path below ``/workflow/api/``, with percent-encoding.
    """

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any

    @property
    def parts(self) -> list[str]:
        """Decoded segments of the path."""
        return [unquote(part) for part in self.path.split("/")]


@dataclass(frozen=True)
class Answer:
    """What the API answers with."""

    body: Any
    status: int = 200


@dataclass
class Host:
    """
    A server of Airflow's UI.

    :param api: called with a request below ``/workflow/api/``, it answers it; its ``of_airflow(path)`` makes
        answers of Airflow's own API, or None for that with which its UI starts.
    :param base: base path of Airflow, ``/`` or like ``/airflow/``.
    """

    dist: Path
    api: Any
    base: str = "/"
    url: str = ""
    requests: list[Request] = field(default_factory=list)

    def file(self, path: str) -> tuple[bytes, str] | None:
        """A file of Airflow's UI or of the page, with its type."""
        for prefix, folder in (("static/", self.dist), ("workflow/static/", STATIC)):
            file = folder / path.removeprefix(prefix)
            if path.startswith(prefix) and file.is_file() and folder in file.resolve().parents:
                return file.read_bytes(), mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        return None

    def index(self) -> bytes:
        """The page of Airflow's UI; each path leads to it that leads nowhere else."""
        text = (self.dist / "index.html").read_text()
        return re.sub(r"\{\{ ?backend_server_base_url ?\}\}", self.base, text).encode()

    def of_airflow(self, path: str) -> Answer:
        """An answer of Airflow's own API: that of the fake, or one that is enough for its UI to start."""
        menus = {"authorized_menu_items": ["Dags", "Connections", "Plugins"], "extra_menu_items": []}
        plugins = {"plugins": [self._plugin()], "total_entries": 1}
        start = {"ui/config": CONFIG, "ui/auth/menus": menus, "api/v2/plugins": plugins}
        return self.api.of_airflow(path) or Answer(start.get(path, {"total_entries": 0}))

    def _plugin(self) -> dict[str, Any]:
        app = {
            "name": "Inboxes",
            "url_route": "workflow-inboxes",
            "destination": "nav",
            "category": "browse",
            "bundle_url": f"{self.base}workflow/static/inboxes.js?v=1",
        }
        lists = ("macros", "flask_blueprints", "fastapi_apps", "fastapi_root_middlewares", "external_views")
        lists += ("appbuilder_views", "appbuilder_menu_items", "global_operator_extra_links", "listeners")
        lists += ("operator_extra_links", "timetables")
        return {"name": "workflow", "source": "", "react_apps": [app]} | {name: [] for name in lists}


class _Handler(BaseHTTPRequestHandler):
    host: Host
    protocol_version = "HTTP/1.1"

    def _respond(self) -> None:
        url = urlsplit(self.path)
        path = url.path.removeprefix(self.host.base)
        size = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(size)
        if path.startswith("workflow/api/"):
            request = Request(
                self.command,
                path.removeprefix("workflow/api/"),
                parse_qs(url.query),
                dict(self.headers),
                json.loads(content) if content else None,
            )
            self.host.requests.append(request)
            answer = self.host.api(request)
            self._send(answer.status, json.dumps(answer.body).encode(), "application/json")
        elif (file := self.host.file(path)) is not None:
            # Airflow's own files have a hash in their names.
            caching = {"Cache-Control": "max-age=3600" if path.startswith("static/") else "no-cache"}
            self._send(200, *file, caching)
        elif path.startswith(("ui/", "api/")):
            answer = self.host.of_airflow(path)
            self._send(answer.status, json.dumps(answer.body).encode(), "application/json")
        else:
            self._send(200, self.host.index(), "text/html; charset=utf-8")

    do_GET = do_POST = _respond

    def _send(self, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        # The browser hangs up on what the page no longer wants.
        with suppress(ConnectionError):
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def serving(dist: Path, api: Any, base: str = "/") -> Iterator[Host]:
    """A running server, closed at the end of the context."""
    host = Host(dist, api, base)
    handler = type("Handler", (_Handler,), {"host": host})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        host.url = f"http://127.0.0.1:{server.server_address[1]}{base}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()
            thread.join()
