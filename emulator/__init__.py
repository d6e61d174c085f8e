"""The channel emulator: what a link does to packets.

Pure values (`channel`, `quantities`, `stages`), the places that touch the kernel (`qdiscs`, `ports`,
`capabilities`), and the XML-RPC service with its client. Running protocols and judging them is left to the
other packages. Nothing is imported here: a client needs no netlink, and the service starts in every guest.
"""
