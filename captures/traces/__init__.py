"""Traces of a transfer over time: bytes sent, delivered, queued, lost and acknowledged.

Drawing them belongs to `reports.sessions`.
"""
