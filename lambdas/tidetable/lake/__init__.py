"""The archive as Iceberg tables: a reconciler keeps one table per stream equal to the manifests in the catalog."""
