"""Files of captures: taking them with tcpdump, reading pcap and pcapng in blocks, cutting them to headers."""
