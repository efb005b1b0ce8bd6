"""
The command line: ``airflow workflow`` and ``airflow-workflow``.

Both are built from ``definition.py`` and run commands through ``running.py``.
"""
