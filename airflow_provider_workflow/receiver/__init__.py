"""
A small web server for the ``notification_url`` of inboxes (docs/service.md 6): a notification starts a run
of a dispatch DAG through Airflow's REST API.

It imports no Airflow and needs none of its database, so it can run wherever the service reaches it::

    service --POST--> app.py (which inbox? always 200) --ring--> doorbell.py (at most one run waiting)
                      --> airflow_rest.py (look, start) --> airflow_token.py --> Airflow

``addresses.py`` makes the unguessable part of each address, ``server.py`` is uvicorn without its logs, and
``command.py`` is the command line. Run it with ``python -m airflow_provider_workflow.receiver``.
"""
