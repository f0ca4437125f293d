"""Plain items in queries: the scans of tables, replicas and indexes, and how they are read."""
