"""User files, found by name or path and read: sweeps, implementations, channels, and their JSON Schemas; and installing
the third-party implementations that have a profile.

What a sweep means belongs to `orchestrator.planning`.
"""
