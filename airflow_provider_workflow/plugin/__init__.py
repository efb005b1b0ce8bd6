"""The pages in Airflow's UI, their JSON API, and what else the API server serves for this provider."""
