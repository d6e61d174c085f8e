"""Provenance: the files of a machine that the packets of a run depend on, each with its digest, and how two differ.

The versions that a run's record names belong to `orchestrator.workers.versions`; which differences are refused belongs
to `orchestrator.sweep`.
"""
