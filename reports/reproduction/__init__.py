"""Papers whose experiments owlt repeats: their claims as data, each judged from our results, and a page of it all.

`claims` reads the statements of a paper, `database` computes our numbers from the table of runs and from captures,
`claim_verdicts` judges them with their uncertainty, `archive` has these numbers and where they come from, and keeps
them in one file, `page` draws the figures and writes the page. Performing the runs belongs to the orchestrator.
"""
