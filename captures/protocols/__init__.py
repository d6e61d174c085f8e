"""Packets as messages of their protocol: dissected, in order, as a ladder, with the termination phase.

A `reader` for each protocol turns a packet's fields into its message; protocols that tshark does not have are read
here. Which packets belong to the session, and what became of them, belongs to `captures.frames` and
`captures.accounting`.
"""
