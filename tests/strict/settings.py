"""Settings of tables, as members of requests."""

from typing import Any

from tests.strict.console import provisioned

REFUSED = "ValidationException"
UNITS: dict[str, Any] = {"ProvisionedThroughput": provisioned(6, 6)}
SWITCH: dict[str, Any] = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": provisioned(5, 5)}
DEFINED: dict[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "g")]
}
KEY: dict[str, Any] = {"SSESpecification": {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "arn:key"}}
STREAM: dict[str, Any] = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}
MAXIMA: dict[str, Any] = {"OnDemandThroughput": {"MaxWriteRequestUnits": 70, "MaxReadRequestUnits": 80}}
WARM: dict[str, Any] = {"WarmThroughput": {"WriteUnitsPerSecond": 9000, "ReadUnitsPerSecond": 15_000}}
