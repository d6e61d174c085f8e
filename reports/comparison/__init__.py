"""Comparisons: metrics, box statistics, the grid of a sweep, and the panels of its figures; theory as closed forms, and
its expectations for a cell. Drawing belongs to `reports.drawing`.
"""
