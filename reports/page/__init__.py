"""The report: its page, CSV tables and files, built from a results directory.

Computing numbers belongs to `reports.comparison`.
"""
