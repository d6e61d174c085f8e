"""The emulator measures its own channel: probes through its ports, what became of them, and a verdict on each."""
