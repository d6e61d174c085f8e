"""Layers for scapy: Saratoga, and bundles of version 6 with their custody signals, as decoders independent of owlt's.

What owlt itself reads of these protocols belongs to `captures.protocols`.
"""
