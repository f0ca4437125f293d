"""Listings: the series of a stream, the fields of its data, and the values of a field. Rollups answer them."""

from tidetable.query.listings.parse import Listing, parse_fields, parse_series, parse_values
from tidetable.query.listings.run import explain_listing, find_listing

__all__ = ["Listing", "explain_listing", "find_listing", "parse_fields", "parse_series", "parse_values"]
