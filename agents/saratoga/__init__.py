"""Saratoga over UDP: version 1 (draft-wood-tsvwg-saratoga-20), put and get of one file, and the get of version 0.

A sender streams DATA at the channel's rate; the receiver reports the missing data in STATUS packets.

What all endpoints share belongs to `agents.endpoint`.
"""
