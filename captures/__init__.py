"""What the packets say: capturing, reading captures, matching them packet by packet, and the summary of a
run.

Every run has two captures, taken at the emulator's two ports with one clock: `sender.pcap` sees the sender's
packets as sent and the receiver's as delivered, `receiver.pcap` the other way round.
"""
