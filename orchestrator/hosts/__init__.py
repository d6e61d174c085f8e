"""Hosts: commands, programs in process groups, confinement, exit status as text.

Deciding what to start on a host belongs to `orchestrator.run`.
"""
