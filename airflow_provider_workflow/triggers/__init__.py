"""Triggers wait in the triggerer: for messages to lease, for messages to announce, or for asset events."""
