"""What users write: YAML 1.2 files with the line of each key, and the one form of a mistake in them.

The emulator and the reports import this folder, too; it imports nothing else of the project. What the keys of a file
mean belongs to the models of the packages that own them.
"""
