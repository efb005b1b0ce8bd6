"""``python -m airflow_provider_workflow.emulator``: runs the emulator in a terminal."""

from airflow_provider_workflow.emulator.command_line import main

if __name__ == "__main__":
    raise SystemExit(main())
