"""A results directory: its layout, the models of its files, how they are written and read, and judgements on a record.

What is computed from captures belongs to `owlt.captures`, what is concluded from several runs to `owlt.reports`, and
what performs runs to `owlt.orchestrator`.
"""
