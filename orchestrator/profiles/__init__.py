"""User files, found by name or path and read: sweeps, implementations, channels, and their JSON Schemas.

What a sweep means belongs to `orchestrator.planning`.
"""
