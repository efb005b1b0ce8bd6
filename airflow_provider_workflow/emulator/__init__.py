"""
A faithful local workflow service on a real socket, for tests, benchmarks and first steps.

Start it with ``python -m airflow_provider_workflow.emulator`` or, inside a test, with
:class:`airflow_provider_workflow.emulator.server.EmulatorServer`.

The rules (everything beside ``web/``, ``app.py``, ``server.py``) know no HTTP and take their clock
as an argument; ``web/`` turns requests into calls of them and can misbehave on demand.
"""
