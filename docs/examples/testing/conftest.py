pytest_plugins = ["airflow_provider_workflow.pytest_plugin"]
