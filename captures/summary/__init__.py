"""The summary of a run and the other files derived from its captures, and cutting captures once these exist.

Computing the numbers belongs to `captures.accounting`.
"""
