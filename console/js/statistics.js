// The statistics of aggregates. `make lists` writes this file from lambdas/tidetable/statistics.py.

// The statistics to choose from.
export const STATISTICS = ["count", "sum", "min", "max", "avg", "first", "last", "first_at", "last_at", "p50", "p90", "p95", "p99"];
// The values of groups add up to that of all events, and are 0 without events.
export const ADDED = ["count", "sum"];
// The values are times.
export const TIMES = ["first_at", "last_at"];
