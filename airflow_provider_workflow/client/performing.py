"""How a sender performs the steps that take more than one call."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from airflow_provider_workflow.client.errors import ConfigurationError
from airflow_provider_workflow.client.steps import ReadTokens, WriteTokens
from airflow_provider_workflow.client.user_tokens import TokenStore, UserTokens


def with_store(store: TokenStore | None, step: ReadTokens | WriteTokens) -> UserTokens | None:
    """
    Read or write a connection's user tokens.

    :raises ConfigurationError: there is no store.
    """
    if store is None:
        raise ConfigurationError(["the grant refresh_token needs a store of user tokens"])
    if isinstance(step, ReadTokens):
        return store.read()
    store.write(step.tokens)
    return None


async def carry_through(work: Coroutine[Any, Any, Any]) -> Any:
    """Await something to its end. Where the caller is cancelled it ends first, as nobody could repeat it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen: the caller has left
        raise
