"""The experiment: profile, sweep, plan, run, record; the rigs it runs on; the `owlt` command.

The channel belongs to `emulator`, the endpoints to `agents`, packets to `captures`, conclusions to `reports`.
"""
