"""Figures drawn: those of a report over the sweep, one for a paper (`owlt figure`), and a channel.

Which boxes a figure has belongs to `reports.comparison`, the figures of one run to `reports.sessions`.
"""
