"""The service's protocol, without Airflow: calls as data, and two senders that carry them."""
