"""The database of the archive's Iceberg tables. A function makes the tables, one per stream."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_glue as glue
from constructs import Construct

from tidetable.names import name_lake_database

from .function import Function
from .naming import make_arn


class Lake(Construct):
    """A Glue database. With it, Glue deletes its tables."""

    def __init__(self, scope: Construct, id: str, *, stage: str) -> None:
        super().__init__(scope, id)
        self.name = name_lake_database(stage)
        database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Stack.of(self).account,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=self.name, description=f"Archived events of Tidetable's stage {stage}"
            ),
        )
        database.apply_removal_policy(RemovalPolicy.DESTROY)

    def allow_tables(self, function: Function) -> None:
        """Let ``function`` make, change and delete the tables of this database, and of no other."""
        # Glue checks a change of a table against its catalog and its database, too.
        arns = [make_arn(self, "glue", "database", self.name), make_arn(self, "glue", "table", f"{self.name}/*")]
        catalog = Stack.of(self).format_arn(service="glue", resource="catalog")
        function.allow_actions(
            "glue",
            ["GetDatabase", "GetTable", "GetTables", "CreateTable", "UpdateTable", "DeleteTable"],
            catalog,
            *arns,
        )
