"""Keys of streams of every form, as texts with the stream's name to fill in."""

_BY_TIME = 'key = {{ partition_by = "time", bucket = "30m", shards = 3{more} }}\n'
_BY_SERIES = 'key = {{ partition_by = "series", shards = 2 }}\n'
_PACK = 'pack = {{ span = "5m" }}\n'
STREAMS = {
    "plain": _BY_TIME.replace("{more}", ""),
    "serial": _BY_SERIES,
    "versions": _BY_SERIES + 'versions = "keep"\n',
    "large": _BY_TIME.replace("{more}", "")
    + 'cold = ["note"]\nlarge = {{ compress_above = 1024, beyond = "chunks" }}\n',
    "packs": _BY_TIME.replace("{more}", "") + _PACK,
    "packs_by_suffix": _BY_TIME.replace("{more}", ', shard_by = "series"') + _PACK,
    "packs_by_series": _BY_SERIES + _PACK,
}
