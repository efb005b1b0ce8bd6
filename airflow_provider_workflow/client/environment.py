"""What both senders take from the environment, so that they behave alike: proxies, and nothing else."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit


def proxy_for(url: str) -> str | None:
    """
    The proxy that ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` name for an address.

    Neither sender is left to read the environment itself: ``requests`` would also read ``.netrc``
    and replace our token by what it finds there.
    """
    parts = urlsplit(url)
    return _proxy(f"{parts.scheme}://{parts.netloc}/")


@lru_cache(maxsize=64)
def _proxy(origin: str) -> str | None:
    from requests.utils import get_environ_proxies, select_proxy

    return select_proxy(origin, get_environ_proxies(origin))
