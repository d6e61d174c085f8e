"""The same packet in both captures: matched, also when damaged; the offset of two clocks; the bottleneck.

Counting the fates of packets belongs to `captures.accounting`.
"""
