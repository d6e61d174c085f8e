"""Turns a sweep into a plan: permutations, the order of runs, seeds, channels, batches, duration. Pure functions.

Reading files belongs to `orchestrator.profiles`, performing a plan to `orchestrator.sweeping`.
"""
