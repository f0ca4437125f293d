"""The rights that each function has, by name."""

from __future__ import annotations

RECONCILE = {
    *("dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:UpdateTable"),
    *("dynamodb:DeleteTable", "dynamodb:TagResource", "dynamodb:ListTagsOfResource"),
    "dynamodb:UpdateContinuousBackups",
}


ENTRIES = {"dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}


# Per function: its actions on period tables, on the catalog, and in the archive.
RIGHTS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "ingest": (
        {"dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:BatchGetItem"},
        {"dynamodb:Query"},
        {"s3:PutObject"},
    ),
    "doors": (
        {"dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:BatchGetItem"},
        {"dynamodb:Query"},
        {"s3:PutObject"},
    ),
    "drain": (
        {f"dynamodb:{action}" for action in ("BatchWriteItem", "PutItem", "GetItem", "BatchGetItem")},
        {"dynamodb:Query", "dynamodb:ConditionCheckItem", "dynamodb:UpdateItem"},
        {"s3:PutObject", "s3:GetObject", "s3:DeleteObject", "s3:ListBucket"},
    ),
    "query": (
        {"dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:DescribeTable"},
        {"dynamodb:Query"},
        {"s3:GetObject", "s3:PutObject", "s3:ListBucket"},
    ),
    "lifecycle": (RECONCILE, ENTRIES | {"dynamodb:GetItem"}, {"s3:GetObject", "s3:ListBucket", "s3:PutObject"}),
    "deployment": (
        RECONCILE,
        ENTRIES | {"dynamodb:GetItem", "dynamodb:DescribeTable", "dynamodb:UpdateTable"},
        set(),
    ),
    "archiver": (
        {"dynamodb:Scan", "dynamodb:Query", "dynamodb:DescribeTable", "dynamodb:BatchGetItem"},
        ENTRIES,
        {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"},
    ),
    "restorer": (
        {
            *("dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:TagResource"),
            *("dynamodb:ListTagsOfResource", "dynamodb:BatchWriteItem", "dynamodb:Scan"),
            "dynamodb:Query",
            *("dynamodb:BatchGetItem", "dynamodb:UpdateContinuousBackups"),
        },
        ENTRIES | {"dynamodb:GetItem"},
        {"s3:GetObject", "s3:PutObject", "s3:ListBucket"},
    ),
    "feed": (
        {f"dynamodb:{action}" for action in ("DescribeStream", "GetRecords", "GetShardIterator", "BatchGetItem")},
        {"dynamodb:Query"},
        {"s3:GetObject", "s3:ListBucket"},
    ),
    "archive_reader": (set(), set(), {"s3:GetObject"}),
    "refresher": (
        {f"dynamodb:{action}" for action in ("Query", "Scan", "GetItem", "BatchGetItem", "BatchWriteItem", "PutItem")},
        {f"dynamodb:{action}" for action in ("Query", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")},
        {"s3:GetObject", "s3:ListBucket"},
    ),
    "authorizer": (set(), {"dynamodb:GetItem"}, set()),
    "console": (set(), set(), set()),
    "operations": ({"dynamodb:DescribeTable"}, {"dynamodb:Query"}, set()),
    "sweeper": (
        {"dynamodb:BatchGetItem"},
        {"dynamodb:Query", "dynamodb:UpdateItem"},
        {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"},
    ),
    "lake": (
        set(),
        {"dynamodb:Query", "dynamodb:UpdateItem", "dynamodb:DeleteItem"},
        {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"},
    ),
}

# Per function: what it may do on the table of the rollups' state; the other functions have no rights on it.
ROLLUPS: dict[str, set[str]] = {
    "ingest": {"dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "doors": {"dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "drain": {"dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "query": {"dynamodb:Query"},
    "operations": {"dynamodb:Query"},
    "lifecycle": {"dynamodb:Query", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "deployment": {"dynamodb:Query", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "restorer": {"dynamodb:Query", "dynamodb:UpdateItem"},
    "refresher": {f"dynamodb:{action}" for action in ("Query", "PutItem", "UpdateItem", "DeleteItem")},
}

# What the lifecycle's two functions may do on copies: in the Regions of ``replicas``, and in any Region.
COPIES = (
    {
        *("dynamodb:CreateTable", "dynamodb:CreateTableReplica", "dynamodb:Scan", "dynamodb:Query", "dynamodb:GetItem"),
        *("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"),
    },
    {"dynamodb:DeleteTable", "dynamodb:DeleteTableReplica"},
)
COPIES_TAGS = {"dynamodb:DescribeTable", "dynamodb:TagResource"}
