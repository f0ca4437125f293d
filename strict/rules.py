"""The rules, each of which can be left out to see what then goes unnoticed; docs/aws.md gives their sources."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """What the service enforces and emulators do not. The value is the rule's heading in docs/aws.md."""

    # Throughput
    PROVISIONED_THROUGHPUT = "provisioned throughput"
    BURST = "burst"
    INDEX_THROUGHPUT = "index throughput"
    ON_DEMAND_THROUGHPUT = "on-demand throughput"
    ON_DEMAND_GROWTH = "on-demand growth"
    ON_DEMAND_MAXIMUM = "on-demand maximum"
    PARTITION_THROUGHPUT = "partition throughput"
    UNPROCESSED_ITEMS = "unprocessed items"
    THROTTLING_REASONS = "throttling reasons"
    FAILED_CONDITION_COSTS = "a failed condition costs"
    TRANSACTION_COSTS = "transactions cost twice"
    # Control plane
    ONE_CONCERN = "one concern per update"
    CHANGES_LAST = "changes last"
    CREATING_HAS_NO_DATA = "a table being created has no data"
    CHANGING_TABLE_IS_BUSY = "a changing table is busy"
    STALE_ANSWER = "update answers with the old figures"
    STALE_SIZE = "sizes are hours old"
    NO_EMPTY_CHANGE = "a change must change something"
    DECREASES = "decreases a day"
    BILLING_MODE_SWITCHES = "billing mode switches"
    CLASS_CHANGES = "table class changes"
    PROTECTION_COOLDOWN = "deletion protection cooldown"
    PROTECTED_TABLE = "a protected table stays"
    WARM_ONLY_RISES = "warm throughput only rises"
    WARM_COVERS_PROVISIONED = "warm throughput covers provisioned"
    CONCURRENT_CHANGES = "concurrent changes"
    CONCURRENT_INDEXED = "concurrent tables with indexes"
    CONTROL_PLANE_RATE = "rate of control plane requests"
    BACKUPS_COME_LATER = "backups come after the table"
    SWITCH_DROPS_MAXIMA = "a billing switch drops the maxima"
    LOST_KEY = "a lost key closes the table"
    TABLE_QUOTA = "table quota"
    UNIT_QUOTA = "unit quotas"
    # Data
    DELETING_LINGERS = "a table being deleted may still answer"
    BATCH_MISSING_TABLE = "a missing table refuses the batch"
    BATCH_REPEATED_KEY = "a repeated key refuses the batch"
    BATCH_ITEMS = "items in a batch"
    REQUEST_BYTES = "bytes in a request"
    ANSWER_BYTES = "bytes in an answer"
    ITEM_BYTES = "bytes in an item"
    TRANSACTION_SIZE = "actions and bytes in a transaction"
    PAGE_BYTES = "bytes in a page"
    KEY_BYTES = "bytes in a partition key"
    RANGE_ORDER = "a range ends after it begins"
    STALE_READS = "reads may be stale"
    PROJECTED_ONLY = "an index shows what it holds"
