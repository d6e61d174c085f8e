"""What runs on the sender and the receiver: the launch contract, probes, and the endpoints that we ship.

Scheduling runs belongs to `orchestrator`, reading packets to `captures`.
"""
