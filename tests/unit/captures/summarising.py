"""The summary of any two captures, of which nothing is kept."""

from __future__ import annotations

from pathlib import Path

from owlt.captures.accounting.summary import CaptureSummary, Transfer, account_both, conclude, read_both
from owlt.captures.frames.session import Session
from owlt.captures.matches.matching import match_captures


def summarise(sender_pcap: Path, receiver_pcap: Path, session: Session, transfer: Transfer) -> CaptureSummary:
    crossing = match_captures(*read_both(sender_pcap, receiver_pcap), session)
    return conclude(crossing, account_both(crossing, transfer.expected), transfer)
