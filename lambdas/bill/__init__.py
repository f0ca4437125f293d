"""The bill: the price of a stream's present tables, and the price of a workload with any configuration.

``prices.py`` has AWS's prices, ``amounts.py`` the amounts and lines of a bill, ``current_tables.py`` the present
tables, ``workload.py`` and ``measured.py`` the events and queries, ``table_bill.py`` DynamoDB's bill of them,
``workload_bill.py`` the other services, ``rolled.py`` rollups and feeds, ``timeline.py`` the ladder day by day.
``current_bill.py``, ``compare.py`` and ``ideas.py`` make the documents of the routes. The command line and the
operators' function use the same code.
Ingest and query do not import this package.
"""
