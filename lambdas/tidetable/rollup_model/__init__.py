"""The model of rollups: their definitions, their cells, and which spans of a range they cover. docs/design/rollups.md.

Queries read by it, and the refresher in ``tidetable/rollups`` writes by it. This file imports nothing.
"""
