"""Where a run takes place: the rig as a value, three hosts as network namespaces, the guest that holds them; and what
a rig uses of its machine.

Only how the three hosts are created differs from rig to rig; what is done on them belongs to `orchestrator.run`.
"""
