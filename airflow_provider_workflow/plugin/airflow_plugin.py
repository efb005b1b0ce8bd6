"""
What Airflow loads as a plugin: the page of its UI, and the application that its API server mounts.

Every process of Airflow loads plugins, so this module imports no FastAPI: only the API server reads the
properties that do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_workflow import __version__, config

URL_PREFIX = "/workflow"
PAGE_ROUTE = "workflow-inboxes"


class _LazyProperty:
    """
    A property of the class as well as of its instances, made when it is read.

    Airflow makes an instance of a plugin from an entry point; of one that a provider names it uses the class.
    """

    def __init__(self, make: Callable[[], list[Any]]) -> None:
        self._make = make

    def __get__(self, instance: object, owner: type | None = None) -> list[Any]:
        return self._make()


def _fastapi_apps() -> list[dict[str, Any]]:
    """The application below ``/workflow``; none if ``[workflow] page`` is off."""
    if not config.page():
        return []
    from airflow_provider_workflow.plugin.app import application

    return [{"app": application(), "url_prefix": URL_PREFIX, "name": "Workflow"}]


def _react_apps() -> list[dict[str, Any]]:
    """The page "Inboxes"; none if ``[workflow] page`` is off."""
    if not config.page():
        return []
    page = {
        "name": "Inboxes",
        "bundle_url": _bundle_url(),
        "destination": "nav",
        "category": "browse",
        "url_route": PAGE_ROUTE,
    }
    return [page]


def _bundle_url() -> str:
    """Path of the pages' module, below the path of Airflow's base URL."""
    from airflow.configuration import conf

    base = urlsplit(str(conf.get("api", "base_url", fallback="") or "")).path.rstrip("/")
    return f"{base}{URL_PREFIX}/static/inboxes.js?v={quote(__version__)}"


class WorkflowPlugin(AirflowPlugin):
    """The plugin; ``airflow plugins`` shows it."""

    name = "workflow"
    fastapi_apps = _LazyProperty(_fastapi_apps)
    react_apps = _LazyProperty(_react_apps)
