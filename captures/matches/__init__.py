"""The same packet in both captures: which it is, what was done to it, how the two clocks stand."""
