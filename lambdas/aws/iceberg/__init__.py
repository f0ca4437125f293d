"""The Iceberg tables of a stage's archives, through pyiceberg and the Glue catalog."""
