"""CFDP class 2 (CCSDS 727.0-B-5, acknowledged, with closure) over UDP.

The engine is cfdp-py, which has neither sockets nor a loop; this package provides both, and sends the answers that the
engine omits.

What all endpoints share belongs to `agents.endpoint`.
"""
