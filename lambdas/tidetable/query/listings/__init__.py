"""Listings: the series of a stream, the fields of its data, and the values of a field. Rollups answer them."""

from tidetable.query.listings.listing_parameters import Listing, parse_fields, parse_series, parse_values
from tidetable.query.listings.listing_run import explain_listing, find_listing

__all__ = ["Listing", "explain_listing", "find_listing", "parse_fields", "parse_series", "parse_values"]
