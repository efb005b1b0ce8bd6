"""The service's protocol, without Airflow: calls as data, and two clients that send them."""
