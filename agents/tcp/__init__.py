"""One file over one TCP connection of this host's own kernel, for any light time that Linux can be talked into.

What is chosen for one socket is here: congestion control, segment, buffers, delayed acknowledgement, patience. What
Linux has for a whole host (SACK, timestamps, window scaling, ECN, kept metrics, routes) is left to the profile.

What all endpoints share belongs to `agents.endpoint`.
"""
