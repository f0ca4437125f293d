"""The keys of callers: the authorizer that checks them, and the first key."""

from __future__ import annotations

from aws_cdk import ArnFormat, CustomResource, Duration, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from constructs import Construct

from .copies import Copied
from .function import Common, Function
from .lifecycle import Lifecycle
from .storage import Storage

# The partitions of the catalog that hold the keys: those of today, and that of older versions.
_PARTITIONS = ["keys#*", "keys"]


class CredentialAuthorizer(Construct):
    """The Lambda authorizer of the API."""

    def __init__(self, scope: Construct, id: str, common: Common, storage: Storage | Copied) -> None:
        super().__init__(scope, id)
        self._common = common
        self.function = Function(self, "Function", common, "authorizer")
        leading = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": _PARTITIONS}}
        self.function.allow_actions("dynamodb", ["GetItem"], storage.catalog.table_arn, conditions=leading)
        self._authorizer = apigateway.RequestAuthorizer(
            self,
            "Authorizer",
            handler=self.function.entry,
            # The gateway caches the authorizer's answer under the values of its identity sources (such as headers), and
            # refuses a request that lacks one of these. Keys may be in any of several headers, so there can be no
            # identity source, and no cache in the gateway. The function itself caches keys.
            identity_sources=[],
            results_cache_ttl=Duration.seconds(0),
        )
        resource = self._authorizer.node.default_child
        if isinstance(resource, apigateway.CfnAuthorizer):
            # Without a source, the CDK writes an empty text. But for AWS the property must be missing.
            resource.add_property_deletion_override("IdentitySource")

    @property
    def method_options(self) -> apigateway.MethodOptions:
        """Make the options of methods that take a key.

        The gateway counts a request for the key that the authorizer names. The emulator does not support that: it would
        require the header x-api-key. A key of the gateway belongs to one Region. So a reader does not have these keys,
        and does not count requests per key.
        """
        return apigateway.MethodOptions(
            authorizer=self._authorizer,
            authorization_type=apigateway.AuthorizationType.CUSTOM,
            api_key_required=self._common.stage != "local" and not self._common.origin,
        )

    def admit_first(self, key: apigateway.IApiKey, lifecycle: Lifecycle) -> CustomResource:
        """Add a resource that lets API Gateway's key call the API.

        A deployment reads the key, and stores a salted hash.
        """
        arn = Stack.of(self).format_arn(
            service="apigateway",
            account="",
            resource="/apikeys",
            resource_name=key.key_id,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
        statement = iam.PolicyStatement(actions=["apigateway:GET"], resources=[arn])
        role = lifecycle.deployment.role
        # The right to read the key has its own policy. The role's other policy must exist before the period tables are
        # made; this key is made after them.
        right = iam.Policy(self, "ReadFirst", roles=[role] if role is not None else None, statements=[statement])
        admitted = lifecycle.make_custom_resource(self, "First", "Custom::TidetableFirstKey", gateway_key=key.key_id)
        admitted.node.add_dependency(right)
        return admitted
