"""Comparisons: metrics, box statistics, the grid of a sweep, and the panels of its figures.

Theory is given as closed forms, with its expectations for a cell. Drawing belongs to `reports.drawing`.
"""
