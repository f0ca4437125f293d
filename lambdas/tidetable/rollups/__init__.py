"""The refresher of rollups: it seals buckets, and computes buckets anew. docs/design/rollups.md says how they stay exact.

It reads events by the modules of queries. No query imports this package.
"""
