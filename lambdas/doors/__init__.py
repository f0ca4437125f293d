"""The doors: protocols of other programs. A request becomes events, and its answer has the protocol's own form.

A door's dialect reads a body into a ``Reading``. The use case of ingest, which is the same for all dialects, stores the
events. Then the dialect renders the outcome.
"""
