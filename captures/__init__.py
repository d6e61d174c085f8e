"""Results from packets: reading captures, matching them packet by packet, and the summary of a run.

Every run has two captures, taken at the emulator's two ports with one clock: `sender.pcap` has the sender's
packets as sent and the receiver's as delivered, `receiver.pcap` the other way round. Comparing runs belongs to
`reports`.
"""
