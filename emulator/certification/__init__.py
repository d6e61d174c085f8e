"""The emulator measures its own channel: probes through its ports, their fate, and a verdict on each quantity.

Applying the channel belongs to `emulator.kernel`.
"""
