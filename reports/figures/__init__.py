"""Figures over a sweep, drawn: scales, boxes, lines, channels.

Figures of one run belong to `reports.sessions`.
"""
