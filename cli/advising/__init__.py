"""Advice from measurements: make findings from a stream's measured history. All functions here are pure."""

from cli.advising.advise import advise
from cli.advising.finding import Advice, Confidence, Finding
from cli.advising.history import History, Hour, Resource, Use, Writing

__all__ = ["Advice", "Confidence", "Finding", "History", "Hour", "Resource", "Use", "Writing", "advise"]
