"""The access log of the API: a line per request."""

from __future__ import annotations

import json

from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_logs as logs
from constructs import Construct

from tidetable.version import VERSION

from .function import Common, make_logs

_Field = apigateway.AccessLogField
# A line of the access log: the caller, the route, the outcome and the time that the call took. It names a key by its
# id, because the key itself is a secret. `requestId` is the answer's header Tidetable-Request-Id, and `api_request_id` in
# the function's log.
#
# The line is JSON for every caller: the gateway does not promise to escape values, so no value is a text that a caller
# chooses, such as the User-Agent. The path is left out, as it has the names of series in refs, and so are the gateway's
# error messages, which repeat headers of the request.
_FIELDS = {
    "requestId": _Field.context_request_id(),
    "extendedRequestId": _Field.context_extended_request_id(),
    "integrationRequestId": "$context.integration.requestId",
    "requestTime": _Field.context_request_time(),
    "ip": _Field.context_identity_source_ip(),
    # The id and the name of the caller's key, and the reason if the key was refused. A field is "-" if the request was
    # signed; the refusal is "-" if the request was let through.
    "keyId": _Field.context_authorizer("key_id"),
    "keyName": _Field.context_authorizer("key_name"),
    "refusal": _Field.context_authorizer("refusal"),
    "apiKeyId": _Field.context_identity_api_key_id(),
    "callerArn": _Field.context_identity_user_arn(),
    "httpMethod": _Field.context_http_method(),
    "resourcePath": _Field.context_resource_path(),
    "protocol": _Field.context_protocol(),
    "status": _Field.context_status(),
    "errorType": _Field.context_error_response_type(),
    "integrationStatus": _Field.context_integration_status(),
    "integrationLatency": _Field.context_integration_latency(),
    "responseLatency": _Field.context_response_latency(),
    "responseLength": _Field.context_response_length(),
    # The version of the stack that took the request, so that a change of behaviour can be dated.
    "version": VERSION,
}
ACCESS_FORMAT = apigateway.AccessLogFormat.custom(json.dumps(_FIELDS))


def make_access_log(scope: Construct, common: Common) -> logs.LogGroup:
    """Make the log group, in the class for infrequent access if the Region has it: half the price per GB.

    This class supports Logs Insights, but no metric filters, subscriptions or Live Tail. The class of a log group cannot
    change, so the group of the other class has another id and name.
    """
    is_cheap = common.offer.log_class
    if is_cheap:
        return make_logs(scope, "AccessLog", common, log_group_class=logs.LogGroupClass.INFREQUENT_ACCESS)
    return make_logs(scope, "Access", common)
