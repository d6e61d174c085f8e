"""What runs on the sender and the receiver: the launch contract, probes, and the endpoints that we ship.

Deciding what runs when belongs to `orchestrator`; what the packets say belongs to `captures`.
"""
