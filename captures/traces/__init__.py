"""Traces of a transfer: what was sent, delivered, waiting, lost and acknowledged at each moment."""
