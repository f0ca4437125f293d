"""The version of Tidetable: of the functions, the command line, the construct and the Python client."""

# The packages read this line when they are built (cdk/pyproject.toml, clients/python/pyproject.toml).
VERSION = "0.1.0.dev0"
# The format of the catalog's entries. Raise it with each change that older code would misread: older code then refuses
# to read the catalog.
CATALOG_FORMAT = 2
# The format of the records of callers' keys. Raise it with each change by which older code would give a key more rights
# than it has, such as another restriction: older code then refuses the key. In every format a record has its id, its name,
# the times of its making and its revocation, and the ids in API Gateway, so that every version can list and revoke it.
KEY_FORMAT = 1
