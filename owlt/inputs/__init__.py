"""Reads what users write: YAML 1.2 files with the line of each key, the common form of mistakes in them, and sweeps.

The emulator and the reports import this folder, too; it imports nothing else of the project. The models of channels and
implementations belong to the packages that own them.
"""
