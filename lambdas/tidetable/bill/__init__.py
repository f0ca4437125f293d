"""The bill: the price of a stream's present tables, and the price of a workload with any configuration.

``prices.py`` has AWS's prices, ``standing.py`` the present tables, ``workload.py`` and ``measured.py`` the events and
queries, ``tables.py`` DynamoDB's bill of them, ``copies.py`` its lines of copies in other Regions, ``whole.py`` the
other services, ``rolled.py`` rollups and feeds, ``timeline.py`` the ladder day by day. ``present.py``, ``change.py``
and ``ideas.py`` make the documents of the routes. The command line and the operators' function use the same code.
Ingest and query do not import this package.
"""
