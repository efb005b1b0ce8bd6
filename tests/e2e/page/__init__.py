"""The page "Inboxes" in a real browser and in the UI of the installed Airflow, with a fake JSON API."""
