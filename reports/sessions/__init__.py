"""One run shown: ladder, traces, TCP, messages, and its page.

Comparing runs belongs to `reports.comparison`.
"""
