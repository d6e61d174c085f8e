"""Figures for a paper, one for each command or call, drawn from the table of runs alone.

The figures of a report's page belong to `reports.figures`.
"""
