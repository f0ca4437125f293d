"""The Python client against the real handlers."""
