"""Whether owlt's own results are right: one sweep on each clock, and cells that have a closed form, as statements.

`equivalence` has the statistics, `clocks` compares clocks, `rounds` and `rates` compare with theory, each from the rows
of the table of runs; `page` writes statements, tables and figures. The closed forms belong to `reports.theory`,
performing the sweeps to `tests.validation`.
"""
