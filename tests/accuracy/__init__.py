"""`make accuracy`: what the emulator makes of many channels, measured, beside what was asked of it."""
