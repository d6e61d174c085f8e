"""What the packets of each protocol say: a module a protocol, each with one reader.

The fields come from tshark or, where it knows none, from scapy layers and a few octets; fetching them is left to
dissection.py.
"""
