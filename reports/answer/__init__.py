"""The answer of a sweep: which implementation to take for which channel and file, by how much, and how sure that is.

Statistics belong to `reports.comparison`, the page to `reports.page`.
"""
