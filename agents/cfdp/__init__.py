"""CFDP class 2 (CCSDS 727.0-B-5, acknowledged, with closure) over UDP.

The engine is cfdp-py, which has neither sockets nor a loop; this package gives it both, and answers where the
engine is silent.

What all endpoints share belongs to `agents.endpoint`.
"""
