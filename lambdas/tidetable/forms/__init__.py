"""Forms: how the events of a period lie in its table, as plain items or in packs.

Each form opens what was read as columns, and settles which copy of an event counts.
"""
