"""Closed forms to hold measurements against, each with its source, and the medians that are outside them.

Measured values belong to `reports.comparison`.
"""
