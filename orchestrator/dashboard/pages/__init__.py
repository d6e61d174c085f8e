"""The pages of the dashboard over HTTP: addresses, templates, files, and what is refused.

The values that the pages show belong to `orchestrator.dashboard.sweeps`.
"""
