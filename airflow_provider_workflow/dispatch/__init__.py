"""A leased message becomes a DAG run, and is acknowledged."""
