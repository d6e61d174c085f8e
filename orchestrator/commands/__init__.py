"""The `owlt` command: a module a subcommand, and what they print.

Decisions that a program without a terminal would need belong to the folders that this one imports.
"""
