"""Tests of the page that the provider adds to Airflow's UI."""
