"""A results directory: its layout, the models of its files, how they are written and read, and judgements on a record.

Results computed from captures belong to `owlt.captures`, conclusions from several runs to `owlt.reports`, and
performing runs to `owlt.orchestrator`.
"""
