"""What becomes of leased messages: started as DAG runs, then acknowledged."""
