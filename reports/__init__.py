"""What we conclude from a sweep: its records and capture summaries as a table, statistics, figures, a page.

Nothing here runs anything: a report can be made again, anywhere, from a results directory alone.
"""
