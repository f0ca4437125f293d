"""Rankings: the first events by a number, across suffixes, periods and archives."""

from tidetable.query.rankings.explain import explain_top
from tidetable.query.rankings.page import Top
from tidetable.query.rankings.parse import parse_ranking
from tidetable.query.rankings.run import find_top

__all__ = ["Top", "explain_top", "find_top", "parse_ranking"]
