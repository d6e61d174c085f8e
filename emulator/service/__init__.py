"""The emulator as a service: one channel between two ports, its timeline, who may change it, and the client.

Applying a channel belongs to `emulator.kernel`, measuring it to `emulator.certification`.
"""
