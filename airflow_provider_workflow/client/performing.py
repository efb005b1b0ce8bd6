"""How a sender performs the steps that read and write the tokens of a user."""

from __future__ import annotations

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
