"""LTP (Licklider Transmission Protocol, RFC 5326) over UDP, written for this project.

Red parts are retransmitted until they are acknowledged, green parts are sent once. The segments and the green blocks
are also what a bundle agent needs of LTP.

What all endpoints share belongs to `agents.endpoint`.
"""
