"""Packets as messages of their protocol: dissected, in order, as a ladder, with the termination phase.

The fields of each protocol belong to `captures.protocols.readers`.
"""
