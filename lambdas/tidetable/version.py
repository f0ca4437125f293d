"""The version of Tidetable: of the functions, the command line, the construct and the Python client."""

# The packages read this line when they are built (cdk/pyproject.toml, clients/python/pyproject.toml).
VERSION = "0.1.0.dev0"
# The format of the catalog's entries. Raise it with each change that older code would misread: older code then refuses
# to read the catalog.
CATALOG_FORMAT = 2
