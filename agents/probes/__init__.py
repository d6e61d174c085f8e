"""Programs that measure on a host during a run: when the received file changes, and what the kernel's TCP reports.

Starting them belongs to `orchestrator.run`.
"""
