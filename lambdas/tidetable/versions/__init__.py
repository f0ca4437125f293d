"""Every version of an event, in streams that keep them.

- ``writing``: how a new version is written, and what is queued. Ingest and the drain ask it.
- ``shown``: versions as answers show them. Queries and the archive ask it.

The keys of versions, and how large their items may be, are in ``layout/period_layout.py``.
"""
