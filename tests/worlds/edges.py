"""The smallest configurations that tests change."""

KEY = 'key = { partition_by = "time", bucket = "6h", shards = 4 }'


STREAM = f'[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 3\n{KEY}\n'


PROVISIONED = STREAM + '[streams.s.capacity]\nmode = "provisioned"\nladder = [{ age = 0, write = 5, read = 7 }]\n'


INDEX = '[[streams.s.index]]\nname = "own"\npartition_by = "kind"\n'
