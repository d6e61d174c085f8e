"""What a sweep will need before it starts: its cells with what is recorded, time, disk and memory.

What the machine is missing belongs to `orchestrator.checks`, what a running sweep does to `orchestrator.status`.
"""
