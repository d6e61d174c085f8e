"""Capture files: the tcpdump command and its counters, pcap and pcapng read in blocks of bounded size.

Starting tcpdump belongs to `orchestrator.run`; what is in a frame belongs to `captures.frames`.
"""
