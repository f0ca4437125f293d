"""Checks of the origins in ``[api] cors`` and the targets in ``[observability] notify``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tidetable.config.model import Config

# An origin in the form that browsers send: scheme, host in lower case, and the port if it is not the scheme's default.
# It has no path.
_ORIGIN = re.compile(r"https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9]\d{0,4})?")
_ADDRESS = re.compile(r"[^\s@,;<>\"]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_.-]{1,256}")
MAX_ORIGINS = 20
MAX_ADDRESSES = 20
# AWS: five actions per state of an alarm. The stack's own topic, for e-mail addresses, is one of them.
MAX_TOPICS = 5


def check_doors(config: Config) -> Iterator[str]:
    """Yield the problems of ``auth`` and ``cors`` (who may call) and of ``notify`` (the targets of alarms), one line
    each.
    """
    ways = config.api.ways
    if not ways or len(set(ways)) < len(ways):
        yield 'api.auth: name at least one way, each once, such as "api-key" or ["api-key", "iam"]'
    yield from _check_origins(config.api.cors)
    yield from _check_targets(config)


def _check_origins(origins: tuple[str, ...]) -> Iterator[str]:
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            yield (
                f'api.cors: "{origin}" is not an origin; write scheme, host and port as browsers send them, in lower case and'
                ' without a path, such as "https://app.example.com" or "http://localhost:3000"'
            )
    if "*" in origins and len(origins) > 1:
        yield 'api.cors: "*" allows every origin; remove it, or remove the others'
    if len(origins) > MAX_ORIGINS or len(set(origins)) < len(origins):
        yield f"api.cors: name at most {MAX_ORIGINS} origins, each once"


def _check_targets(config: Config) -> Iterator[str]:
    policy = config.observability
    for address in policy.addresses:
        if not _ADDRESS.fullmatch(address):
            yield (
                f'observability.notify: "{address}" is neither an e-mail address, such as "ops@example.com", nor the ARN of an'
                ' SNS topic, such as "arn:aws:sns:us-east-1:123456789012:ops"'
            )
    for topic in policy.topics:
        if not _TOPIC.fullmatch(topic):
            yield (
                f'observability.notify: "{topic}" is not the ARN of an SNS topic; write it as'
                ' "arn:aws:sns:us-east-1:123456789012:ops"'
            )
    if len(set(policy.notify)) < len(policy.notify):
        yield "observability.notify: a target is named twice; name each once"
    if len(policy.addresses) > MAX_ADDRESSES:
        yield (
            f"observability.notify: {len(policy.addresses)} e-mail addresses are more than {MAX_ADDRESSES}; use a mailing list"
        )
    by_region = Counter(topic.split(":")[3] for topic in policy.topics if _TOPIC.fullmatch(topic))
    if max(by_region.values(), default=0) + bool(policy.addresses) > MAX_TOPICS:
        yield (
            f"observability.notify: an alarm notifies at most {MAX_TOPICS} topics of its Region, and all e-mail addresses"
            " together need a topic of their own; name fewer"
        )
