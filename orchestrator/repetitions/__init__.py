"""Adaptive repetitions: which runs of a plan are due, given the results so far.

The rule belongs to `reports.comparison.stopping`, which the report applies too; performing belongs to
`orchestrator.sweeping`.
"""
