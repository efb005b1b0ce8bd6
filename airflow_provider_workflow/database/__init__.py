"""Airflow's metadata database: DAG runs, dead letters, and which DAGs use which inbox."""
