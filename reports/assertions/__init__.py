"""The assertions of a sweep, checked against its results: which are met, by how much, in which permutation.

How they are written belongs to `orchestrator.planning`, the page to `reports.page`.
"""
