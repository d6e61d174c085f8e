"""A channel in the kernel: queueing disciplines, filters and eBPF programs, applied and read back.

The meaning of a channel belongs to `emulator.channel`, access to it to `emulator.service`.
"""
