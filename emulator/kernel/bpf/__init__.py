"""The eBPF programs: compiled, loaded through libbpf, and probed for support.

Attaching them to a link belongs to `emulator.kernel`.
"""
