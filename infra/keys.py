"""Rights on customers' KMS keys: always through the one service that uses the key on the function's behalf."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

# AWS, "Encryption at rest: how DynamoDB uses AWS KMS": kms:Encrypt, Decrypt, ReEncrypt*, GenerateDataKey* and DescribeKey.
# The wildcards are written out, less the key pairs, which DynamoDB has no use for.
TABLE_USES = (
    *("Encrypt", "Decrypt", "ReEncryptFrom", "ReEncryptTo"),
    *("GenerateDataKey", "GenerateDataKeyWithoutPlaintext", "DescribeKey"),
)
# S3 and SQS: a writer makes a data key and, for an upload in parts and a bucket key, decrypts it again; a reader decrypts.
WRITES, READS = ("GenerateDataKey", "Decrypt"), ("Decrypt",)


def key_statements(
    scope: Construct, service: str, keys: Sequence[str], uses: Sequence[str], *, grants: bool = False
) -> list[iam.PolicyStatement]:
    """Statements that let a role use these keys (ARNs) through a service such as ``dynamodb``; none without keys.

    With ``grants`` the service may also be let to keep using them: what makes an encrypted table creates a grant.
    """
    if not keys:
        return []
    stack = Stack.of(scope)
    # The suffix differs by partition: amazonaws.com, amazonaws.com.cn.
    through = {"kms:ViaService": f"{service}.{stack.region}.{stack.url_suffix}"}
    statements = [
        iam.PolicyStatement(
            actions=[f"kms:{use}" for use in uses], resources=list(keys), conditions={"StringEquals": through}
        )
    ]
    if grants:
        conditions = {"StringEquals": through, "Bool": {"kms:GrantIsForAWSResource": "true"}}
        statements.append(iam.PolicyStatement(actions=["kms:CreateGrant"], resources=list(keys), conditions=conditions))
    return statements


def customer_key(scope: Construct, id: str, encryption: str) -> kms.IKey | None:
    """The key of an ``encryption`` that names one by its ARN; its policy is its owner's."""
    return kms.Key.from_key_arn(scope, id, encryption) if encryption.startswith("arn:") else None
