"""What changed between results directories: two of the same sweep cell by cell, and change points over many nights.

Comparing the implementations of one directory belongs to `reports.comparison`.
"""
