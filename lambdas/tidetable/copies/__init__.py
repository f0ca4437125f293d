"""Copies of tables in other Regions. docs/operate/copies.md says what users see.

- ``states``: what the copies of a table forbid. The rules about all tables ask it.
- ``table_copies``: which copies are recorded, looked at, marked, made and deleted. The lifecycle asks it.
- ``catalog_copies``: the copies of the catalog.
- ``reader``: what a stage in another Region may answer from copies. Queries ask it.

``config/check_copies.py`` checks the settings. This room imports no lifecycle, and this file imports nothing: a reader
loads only ``reader``.
"""
