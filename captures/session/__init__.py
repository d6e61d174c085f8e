"""Which packets of a capture belong to the transfer: addresses, ports, and detection where no profile describes them.

Matching packets across captures belongs to `captures.matches`.
"""
