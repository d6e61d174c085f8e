"""The emulator as a service: one channel between two ports, its timeline, and who may change it."""
