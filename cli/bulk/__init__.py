"""An import straight into the archive: ``import --to archive``.

- ``inputs``: the files, in folders or in S3
- ``judge``: rows become the items that ingest would store, or are refused for its reasons
- ``runs``: an external sort of the items, by period
- ``settle``: which copy of an event counts
- ``merge``: a period's items and its present archive become new parts, which the restorer's function lets count
- ``progress``: how far an import is, in its folder
- ``command``: the steps of the command
"""
