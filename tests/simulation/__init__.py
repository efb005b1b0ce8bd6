"""
Whole histories of the provider, played in one process from a seed: ``make simulate``.

The heart of the package is real: ``sensors/inbox.py``, and all of ``dispatch/`` that starts runs. Around it
everything is simulated, and decided by the seed: the time, the service (by the rules of the emulator),
Airflow with its DAG runs and retries, and the order in which processes act. Processes are killed, frozen and
timed out, and calls fail before or after their effect.

Where the expression of a route changes its answer between deliveries, processes are neither frozen nor slow:
one that stops for longer than the safety margin of a lease may start the run of another DAG.

=================  ====================================================================
``scheduler.py``   time, processes as greenlets, and how they end
``service.py``     the service, and the hook that calls it
``airflow.py``     target DAGs, their runs, and the supervisor of a task
``tasks.py``       one try of a task: sensor, operator, trigger
``listeners.py``   DAG runs and retries of those tasks
``plan.py``        everything that a seed chooses
``knowledge.py``   what a process holds and knows
``keys.py``        business keys
``ledger.py``      the observer of leases, with the rules that must hold at each moment
``starts.py``      the observer of starts of runs and dead letters, with their rules
``invariants.py``  the rules for the end of a history
``world.py``       everything in one history
``play.py``        plays one history
``batches.py``     histories of ``@task.workflow_inbox``
=================  ====================================================================
"""
