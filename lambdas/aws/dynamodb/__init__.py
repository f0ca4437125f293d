"""DynamoDB: the store of events, the catalog, the callers' credentials, the state of rollups, and the tables themselves."""
