"""The lab rig: three machines, reached over SSH, with owlt's programs in a session of their own on each.

What an inventory holds belongs to `orchestrator.profiles.inventory`; what is done on the hosts to `orchestrator.run`.
"""
