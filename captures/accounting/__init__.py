"""The fate of the packets: the ledger against the emulator's counters, measures, and reasons for suspicion.

Writing these to files belongs to `captures.summary`.
"""
