"""Where a run takes place: the rig as a value, three hosts as network namespaces, the guest that holds them; and the
values that profiles get from it.

Only how the three hosts are created differs from rig to rig; what is done on them belongs to `orchestrator.run`.
"""
