"""One file over one TCP connection of this host's own kernel, for any propagation delay that Linux can be configured
for. The options of a socket are set here: congestion control, segment size, buffers, delayed acknowledgements,
timeouts. The profile sets the options of the host (SACK, timestamps, window scaling, ECN, cached metrics, routes).

What all endpoints share belongs to `agents.endpoint`.
"""
