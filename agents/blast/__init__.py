"""A blast over UDP: every piece of a file once, or a few times, at the rate of the channel, and nothing comes back.

No protocol that retransmits what was lost can be faster, so this is the ceiling that the others are measured against.
On a channel that loses packets the file is incomplete, and the receiver reports how much of it arrived.

What all endpoints share belongs to `agents.endpoint`.
"""
