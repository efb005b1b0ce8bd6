"""HTTP around the rules: requests, answers, the event stream, and misbehaviour on demand."""
