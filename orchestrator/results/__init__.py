"""What is made of recorded runs beside their records: summaries, digests of attempts that failed alike.

The records and the layout of a results directory belong to `owlt.results`, drawing conclusions to `reports`.
"""
