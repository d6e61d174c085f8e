"""An implementation as data: its profile, the commands of both sides, their placeholders, what a host needs.

Starting and stopping the programs belongs to `orchestrator.run`.
"""
