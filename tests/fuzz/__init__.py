"""Hostile bytes for all that reads bytes of others: `python -m tests.fuzz`."""
