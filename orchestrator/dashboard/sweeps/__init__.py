"""Sweeps as the dashboard shows them, as values: kept in memory, filtered, counted, put into words and lengths.

Nothing here knows about HTTP: answering requests belongs to `orchestrator.dashboard.pages`.
"""
