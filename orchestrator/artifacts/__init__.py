"""Files that an implementation left on a host: the received file and its comparison, and logs kept from failed runs.

The verdict on a run belongs to `orchestrator.run`.
"""
