"""Rights on customers' KMS keys. They hold only through the service that uses the key for the function."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

# AWS, "Encryption at rest: how DynamoDB uses AWS KMS": kms:Encrypt, Decrypt, ReEncrypt*, GenerateDataKey* and
# DescribeKey. The list names the actions behind the wildcards, without the actions for key pairs: DynamoDB does not use
# them.
TABLE_USES = (
    *("Encrypt", "Decrypt", "ReEncryptFrom", "ReEncryptTo"),
    *("GenerateDataKey", "GenerateDataKeyWithoutPlaintext", "DescribeKey"),
)
# S3 and SQS: a writer generates a data key, and decrypts it for multipart uploads and bucket keys; a reader decrypts.
WRITES, READS = ("GenerateDataKey", "Decrypt"), ("Decrypt",)


def make_key_statements(
    scope: Construct,
    service: str,
    keys: Sequence[str],
    uses: Sequence[str],
    *,
    grants: bool = False,
    region: str | None = None,
) -> list[iam.PolicyStatement]:
    """Make statements that let a role use these keys (ARNs) through a service such as ``dynamodb``; an empty list
    without keys.

    With ``grants`` the role may also create grants for the service: the creation of an encrypted table needs them.
    ``region`` is the Region of the service, by default the stack's Region.
    """
    if not keys:
        return []
    stack = Stack.of(scope)
    # The suffix depends on the AWS partition: amazonaws.com, amazonaws.com.cn.
    through = {"kms:ViaService": f"{service}.{region or stack.region}.{stack.url_suffix}"}
    statements = [
        iam.PolicyStatement(
            actions=[f"kms:{use}" for use in uses], resources=list(keys), conditions={"StringEquals": through}
        )
    ]
    if grants:
        conditions = {"StringEquals": through, "Bool": {"kms:GrantIsForAWSResource": "true"}}
        statements.append(iam.PolicyStatement(actions=["kms:CreateGrant"], resources=list(keys), conditions=conditions))
    return statements


def find_customer_key(scope: Construct, id: str, encryption: str) -> kms.IKey | None:
    """Return the KMS key if ``encryption`` is its ARN, otherwise None. The key's owner maintains its policy."""
    return kms.Key.from_key_arn(scope, id, encryption) if encryption.startswith("arn:") else None
