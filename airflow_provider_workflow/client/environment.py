"""What both senders take from the environment, so that they behave alike: proxies, and nothing else."""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow_provider_workflow.client.errors import ConfigurationError


def proxy_for(url: str) -> str | None:
    """
    The proxy that ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` name for an address.

    Neither sender is left to read the environment itself: ``requests`` would also read ``.netrc``
    and replace our token by what it finds there.

    :raises ConfigurationError: it is no HTTP proxy; to go without it would go where nobody meant to.
    """
    from requests.utils import get_environ_proxies, select_proxy

    proxy = select_proxy(url, get_environ_proxies(url))
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        kind = urlsplit(proxy).scheme
        raise ConfigurationError([f"the environment names a {kind} proxy (only HTTP proxies are supported)"])
    return proxy
