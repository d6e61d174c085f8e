"""One reader for each protocol: a packet's fields in, its message out. What tshark does not read is read here.

Running tshark and combining messages belongs to `captures.protocols`.
"""
