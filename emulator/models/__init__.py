"""Channels that are computed: delays and contacts from ephemerides and orbits, coded frames, fading,
retransmission below IP.

Each module turns parameters into values over time; nothing is read but the ephemeris, which comes with its Python
package, and nothing is written. A channel as values, and channel files, belong to `emulator.channel`; the commands that
write such files belong to `orchestrator.commands`. Orbits need the extra `orbits` (skyfield).
"""
