"""Conclusions from a sweep: records and capture summaries as a table, statistics, figures, a page.

Nothing here runs anything: a report can be built again, anywhere, from a results directory alone.
Reading packets belongs to `captures`.
"""
