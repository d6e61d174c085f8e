"""The channel emulator: it applies the effects of a link to packets.

Channels as values (`channel`), the kernel that carries them (`kernel`), the measurement of a channel in place
(`certification`), and the XML-RPC service with its client (`service`). Running protocols and judging them belongs to
the other packages. Nothing is imported here: a client needs no netlink, and the service starts in every guest.
"""
