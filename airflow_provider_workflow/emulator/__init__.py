"""
A local workflow service that behaves like the real one, for tests, benchmarks and first steps.

Start it with ``python -m airflow_provider_workflow.emulator`` or, inside a test, with
:class:`airflow_provider_workflow.emulator.server.EmulatorServer`.

``rules/`` is the service without HTTP, with an injected clock; ``web/`` maps requests to the rules and
injects faults on demand; ``server.py`` runs both.
"""
