"""Allocation: which slot of which machine performs which batch of a sweep, so that repetitions stay together.

When a run is attempted again belongs to `orchestrator.sweeping.scheduling`; launching to `orchestrator.workers`.
"""
