"""Sweeps on many machines, on the command line: `owlt worker`, and the options of `owlt run --dask`.

What these do belongs to `orchestrator.sweep`.
"""
