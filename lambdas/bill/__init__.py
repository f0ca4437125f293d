"""The bill: the price of a stream's present tables, and the price of a workload with any configuration.

``prices.py`` has AWS's prices, ``amounts.py`` the amounts and lines of a bill, ``current_tables.py`` the present
tables, ``accounts.py`` a stream's part of them for an answer, ``workload.py`` and ``measured.py`` the events and
queries, ``table_bill.py`` DynamoDB's bill of them, ``workload_bill.py`` the other services, ``rolled.py`` rollups and
feeds, ``extras.py`` alarms of auto scaling, requests to KMS and discounts, ``timeline.py`` the ladder day by day,
``alternatives.py`` other settings of a stream, ``lines.py`` their lines of tidetable.toml. ``current_bill.py`` and
``compare.py`` make the two documents of ``/v1/cost``: of the present tables, and of a load with other settings. The
command line and the operators' function use the same code. Ingest and query do not import this package.
"""
