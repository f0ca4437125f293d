"""Rankings: the first events by a number, across suffixes, periods and archives."""

from tidetable.query.rankings.ranking_page import Top
from tidetable.query.rankings.ranking_parameters import parse_ranking
from tidetable.query.rankings.ranking_reads import explain_top
from tidetable.query.rankings.ranking_run import find_top

__all__ = ["Top", "explain_top", "find_top", "parse_ranking"]
