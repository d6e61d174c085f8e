"""The fate of the packets: ledgers, measures, reasons for suspicion, and the summary, kept beside a run's captures.

Finding the packets belongs to `captures.matches`, their meaning in a protocol to `captures.protocols`.
"""
