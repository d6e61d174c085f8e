"""A rig in memory, to test what performs runs without SSH, root or waiting.

Hosts with files, the few commands that owlt gives to hosts, and programs that do what a test scripts. What is done on
a rig belongs to `orchestrator.run`; the emulator in memory is `tests.memory.emulator`.
"""
