"""CFDP over UDP with LibreCube's engine (PyPI `cfdp` 0.2.0), in place of cfdp-py's: a second opinion.

What all endpoints share belongs to `agents.endpoint`.
"""
