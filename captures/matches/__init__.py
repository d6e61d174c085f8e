"""The same packet in both captures: matched, also when damaged; the offset of two clocks; the bottleneck.

Counting what became of the packets belongs to `captures.accounting`.
"""
