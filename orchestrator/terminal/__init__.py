"""What all commands share: options, usage errors, completion, and printing as text or JSON.

Importing these modules is fast: `owlt --help` imports all of them, so that rich is imported only to print. What a
single command does and prints belongs to `orchestrator.commands`.
"""
