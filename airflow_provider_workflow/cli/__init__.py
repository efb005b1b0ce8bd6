"""
The command line: ``airflow workflow`` and ``airflow-workflow``.

Both are built from ``tree.py`` and run commands through ``common.py``.
"""
