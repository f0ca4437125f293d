"""Names and ARNs that the stack and the functions share."""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from constructs import Construct

from tidetable.names import service_name, table_prefix

__all__ = [
    "archive_bucket", "catalog_table", "lake_database", "log_bucket", "period_tables", "rollups_table", "service_name",
]  # fmt: skip


def catalog_table(stage: str) -> str:
    """The catalog's name; it has no dot, so it never looks like a period table."""
    return f"tidetable-{stage}-catalog"


def rollups_table(stage: str) -> str:
    """The name of the table of the rollups' edges and marks."""
    return f"tidetable-{stage}-rollups"


def archive_bucket(scope: Construct, stage: str) -> str:
    """The archive bucket's name, fixed so that a new stack finds the archive of one that was destroyed.

    A literal where the stack's account and Region are known, which importing needs; else CloudFormation joins the same
    name.
    """
    stack = Stack.of(scope)
    return f"tidetable-{stage}-archive-{stack.account}-{stack.region}"


def log_bucket(scope: Construct, stage: str) -> str:
    """The name of the bucket with the archive bucket's access logs.

    Fixed, as the archive bucket that is kept names it.
    """
    stack = Stack.of(scope)
    return f"tidetable-{stage}-logs-{stack.account}-{stack.region}"


def period_tables(scope: Construct, stage: str) -> str:
    """The ARN pattern of a stage's period tables.

    The lifecycle creates and deletes them, so a template cannot list them.
    """
    return Stack.of(scope).format_arn(
        service="dynamodb",
        resource="table",
        resource_name=f"{table_prefix(stage)}*",
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )


def lake_database(stage: str) -> str:
    """The Glue database of a stage's archive; Athena's names have no hyphens."""
    return f"tidetable_{stage.replace('-', '_')}"
