"""`python -m owlt`: the command `owlt` of this Python."""

from owlt.orchestrator.commands.cli import main

main()
