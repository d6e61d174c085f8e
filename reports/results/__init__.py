"""A results directory with its summaries, as values: runs, channels in words, rows of the table of runs.

The files and what follows from a record alone belong to `owlt.results`, comparing runs to `reports.comparison`.
"""
