"""
The command line: ``airflow workflow`` (Airflow 3.2 and later), and ``airflow-workflow`` (all versions).

Both are built from ``definition.py`` and run commands through ``running.py``.
"""
