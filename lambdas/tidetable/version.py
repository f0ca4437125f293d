"""The version of Tidetable: of the functions, the command line, the construct and the Python client."""

# The packages read this line when they are built (cdk/pyproject.toml, clients/python/pyproject.toml).
VERSION = "0.1.0.dev0"
