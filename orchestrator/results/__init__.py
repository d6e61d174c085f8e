"""What runs leave in a results directory, and the reader of it: records, analyses, disturbance, retry decisions.

Drawing conclusions belongs to the package `reports`.
"""
