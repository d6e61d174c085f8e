"""A sweep on several machines through Dask distributed: the service of each machine, and its use by `owlt run`.

Dask connects the machines, encrypts what they send and reports which of them are there. Which batch comes next belongs
to `orchestrator.allocation`, records and their place to `orchestrator.sweeping`.
"""
