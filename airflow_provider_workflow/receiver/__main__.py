"""``python -m airflow_provider_workflow.receiver``."""

from __future__ import annotations

from airflow_provider_workflow.receiver.command import main

if __name__ == "__main__":
    raise SystemExit(main())
