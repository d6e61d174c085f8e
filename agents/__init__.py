"""What runs on the sender and the receiver: the launch contract, probes, and the endpoints that we ship.

`orchestrator` decides what runs when; `captures` reads the packets.
"""
