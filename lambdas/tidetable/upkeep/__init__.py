"""What a run over the tables of a stage works with: its ports and its time (``run``), and its ``actions``.

The lifecycle and the copies in other Regions take part in runs. This file imports nothing.
"""
