"""Parsers of other programs' formats: the only place that imports their libraries. The doors' function alone has those."""
