"""Commands that perform runs: `owlt run`, `retry` and `extend`, and `owlt plan`, which says what that would take.

They read options and print. What performs a sweep belongs to `orchestrator.sweep`.
"""
