"""The smallest DAG: proves that the local Airflow itself works."""

from airflow.sdk import DAG, task

with DAG("greet", schedule=None):

    @task
    def greet(**context):
        return f"hello {context['dag_run'].conf.get('name', 'world')}"

    greet()
