"""
A faithful local workflow service on a real socket, for tests, benchmarks and first steps.

Start it with ``python -m airflow_provider_workflow.emulator`` or, inside a test, with
:class:`airflow_provider_workflow.emulator.server.EmulatorServer`.

``rules/`` is the service without HTTP, and its clock is injected; ``web/`` turns requests into calls
of the rules, and injects faults on demand; ``server.py`` serves both. ``clock.py``, ``settings.py`` and
``faults.py`` are what a test may pass in.
"""
