"""A results directory as values: a row for each run, checked records, channels in words.

Comparing runs belongs to `reports.comparison`.
"""
