"""Parsers of other programs' formats: only this package imports their libraries, which only the doors' function has."""
