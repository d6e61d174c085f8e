"""The channel as values: links, impairments, timelines, channel files and contact plans. No kernel, no network.

Applying a channel to interfaces belongs to `emulator.kernel`.
"""
