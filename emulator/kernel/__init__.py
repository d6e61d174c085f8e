"""A channel in the kernel: queueing disciplines, filters and eBPF programs, applied and read back.

What a channel means belongs to `emulator.channel`, who may change it to `emulator.service`.
"""
