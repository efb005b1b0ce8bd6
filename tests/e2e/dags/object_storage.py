"""One task writes a text to the folder in object storage that the conf names, and another one reads it."""

from airflow.sdk import DAG, ObjectStoragePath, task

with DAG("object_storage", schedule=None):

    @task
    def write(dag_run=None):
        path = ObjectStoragePath(dag_run.conf["folder"]) / "orders" / "1.json"
        path.write_text(dag_run.conf["text"])
        return str(path)

    @task(task_id="work")
    def read(path):
        return ObjectStoragePath(path).read_text()

    read(write())
