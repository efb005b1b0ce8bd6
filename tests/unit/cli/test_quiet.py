"""What people at a terminal do not see, unless they ask for it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings

import pytest

from airflow_provider_workflow.cli.output import LOG_LEVEL, ignore_warnings, reduced_logging


def test_warnings_that_airflow_turns_on_as_it_is_loaded_are_hushed_again() -> None:
    with warnings.catch_warnings(record=True) as seen, reduced_logging():
        warnings.warn("before", DeprecationWarning, stacklevel=1)
        warnings.filterwarnings("always")
        warnings.warn("meanwhile", DeprecationWarning, stacklevel=1)
        ignore_warnings()
        warnings.warn("after", DeprecationWarning, stacklevel=1)

    assert [str(each.message) for each in seen] == ["meanwhile"]


def test_everything_is_as_it_was_afterwards() -> None:
    before = (logging.root.manager.disable, list(warnings.filters), os.environ.get(LOG_LEVEL))
    with reduced_logging():
        assert logging.root.manager.disable == logging.INFO

    assert (logging.root.manager.disable, list(warnings.filters), os.environ.get(LOG_LEVEL)) == before


def test_somebody_who_debugs_sees_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG_LEVEL, "debug")
    with warnings.catch_warnings(record=True) as seen, reduced_logging():
        warnings.simplefilter("always")
        ignore_warnings()
        warnings.warn("seen", DeprecationWarning, stacklevel=1)
        assert logging.root.manager.disable < logging.INFO

    assert len(seen) == 1


@pytest.mark.slow
def test_an_airflow_that_is_loaded_later_logs_warnings_and_above() -> None:
    code = (
        "from airflow_provider_workflow.cli.output import reduced_logging\n"
        "with reduced_logging():\n"
        "    import airflow.settings, structlog\n"
        "    log = structlog.get_logger('airflow.models')\n"
        "    log.info('said by the way'); log.warning('said aloud')\n"
        "import os; assert 'AIRFLOW__LOGGING__LOGGING_LEVEL' not in os.environ"
    )
    env = {name: value for name, value in os.environ.items() if name != LOG_LEVEL}

    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)

    assert "said aloud" in done.stdout + done.stderr
    assert "by the way" not in done.stdout + done.stderr
