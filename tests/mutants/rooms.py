"""Which folder of tests should notice a mistake in which module: the longest prefix of the module's path decides."""

ROOMS = {
    "lambdas/tidetable/": ("core",),
    "lambdas/tidetable/access.py": ("credentials", "api"),
    "lambdas/tidetable/archive/": ("archive",),
    "lambdas/tidetable/archive_expiry.py": ("lifecycle", "archive"),
    "lambdas/bill/": ("bill",),
    "lambdas/tidetable/catalog.py": ("lifecycle", "query"),
    "lambdas/tidetable/copies/": ("lifecycle", "core", "query"),
    "lambdas/tidetable/copies/reader.py": ("query", "api"),
    "lambdas/tidetable/credentials/": ("credentials",),
    "lambdas/doors/": ("doors",),
    "lambdas/tidetable/feed/": ("feed",),
    "lambdas/tidetable/ingest/": ("ingest", "packs"),
    "lambdas/tidetable/layout/": ("core", "query", "packs"),
    "lambdas/tidetable/large/": ("large",),
    "lambdas/tidetable/late.py": ("lifecycle",),
    "lambdas/tidetable/leases.py": ("lifecycle", "rollups"),
    "lambdas/tidetable/lifecycle/": ("lifecycle",),
    "lambdas/tidetable/packs/": ("packs",),
    "lambdas/tidetable/period_tables.py": ("lifecycle",),
    "lambdas/tidetable/query/": ("query", "packs", "rollups"),
    "lambdas/tidetable/query/listings/": ("query", "rollups"),
    "lambdas/tidetable/query/indexed_series.py": ("rollups", "query"),
    "lambdas/tidetable/query/rollup_sources.py": ("rollups", "query"),
    "lambdas/tidetable/event_writing.py": ("ingest",),
    "lambdas/tidetable/expiry.py": ("lifecycle",),
    "lambdas/tidetable/ladder.py": ("lifecycle",),
    "lambdas/tidetable/rollup_model/": ("rollups", "query"),
    "lambdas/tidetable/rollups/": ("rollups",),
    "lambdas/tidetable/run_streams.py": ("lifecycle",),
    "lambdas/tidetable/table_specs.py": ("lifecycle",),
    "lambdas/tidetable/upkeep/": ("lifecycle",),
    "lambdas/tidetable/where.py": ("query",),
    "lambdas/tidetable/window.py": ("core", "ingest"),
    "lambdas/aws/": ("lifecycle", "lean", "ingest"),
    "lambdas/aws/archive/": ("archive",),
    "lambdas/aws/feed_targets.py": ("feed",),
    "lambdas/aws/dynamodb/": ("lean", "lifecycle", "query"),
    "lambdas/aws/http/": ("lean",),
    "lambdas/aws/mappings.py": ("feed",),
    "lambdas/aws/sketches.py": ("query", "rollups"),
    "lambdas/aws/dynamodb/wire.py": ("lean", "ingest"),
    "lambdas/handlers/": ("api",),
    "lambdas/handlers/archive_reader.py": ("api", "archive"),
    "lambdas/handlers/archiver.py": ("api", "archive"),
    "lambdas/handlers/authorizer.py": ("credentials", "api"),
    "lambdas/handlers/doors.py": ("doors", "api"),
    "lambdas/handlers/feed.py": ("feed", "api"),
    "lambdas/handlers/refresher.py": ("rollups", "api"),
    "lambdas/machine.py": ("api",),
    "lambdas/settings.py": ("api", "core"),
    "lambdas/wiring": ("api",),
}


def find_room(path: str) -> tuple[str, ...]:
    """The folders of ``tests/`` that should notice a mutation of ``path``, the likeliest first."""
    prefix = max((prefix for prefix in ROOMS if path.startswith(prefix)), key=len, default=None)
    if prefix is None:
        raise KeyError(f"{path}: no folder of tests is named for it in tests/mutants/rooms.py")
    return ROOMS[prefix]
