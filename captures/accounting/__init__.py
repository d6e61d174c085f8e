"""What became of the packets, held against the emulator's counters, and what it all comes to."""
