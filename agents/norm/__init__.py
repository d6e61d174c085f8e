"""NORM (RFC 5740) with NRL's libnorm: one file over a multicast group, or between two addresses.

What all endpoints share belongs to `agents.endpoint`.
"""
