"""`owlt analyse`: one transfer from its captures: numbers, tables, figures and a page; and `owlt dissect`.

`command` has the options, `analysing` computes and writes the page, `printing` prints the result; `dissect` prints
single frames. Captures belong to `captures`, figures and pages to `reports`.
"""
