"""The subcommands of `owlt rig`, for a lab rig, and `owlt rigs up`, for experiments by hand (`up`).

`command` puts `owlt rig` together: leases, what is installed on the hosts, whether the test path is as it should be.
What is done on hosts belongs to `orchestrator.rigs`, what they are checked for to `orchestrator.checks`; the commands
that list and check rigs are in `machine`.
"""
