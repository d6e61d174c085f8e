"""Layers for scapy: Saratoga, and bundles of version 6 with their custody signals, for your own analyses in scapy.

No other module of owlt imports them: scapy is GPL-2.0-only, and a program that imports it is covered by its licence.
What owlt itself reads of these protocols belongs to `captures.protocols.readers`. Install scapy with `owlt[scapy]`.
"""
