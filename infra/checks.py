"""Find mistakes before CloudFormation or a running stage finds them."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from aws_cdk import Annotations, Stack, Token
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct

from tidetable.config import Config
from tidetable.config.check_copies import REGION, check_own_region
from tidetable.config.regions import Offer, advise_offer, check_offer, find_offer
from tidetable.errors import ConfigError
from tidetable.names import STAGE

from .errors import UsageError

ROLES = ("origin", "reader")
_NOTIFY = "[observability] notify"
_stages: WeakKeyDictionary[IConstruct, list[tuple[str, Construct, s3.IBucket | None]]] = WeakKeyDictionary()


def check_name(stage: str) -> None:
    """Raise UsageError unless the text can be the name of a stage."""
    if not STAGE.fullmatch(stage):
        raise UsageError(f"stage {stage!r}: use 1 to 16 of a-z, 0-9 and -, beginning with a letter, such as 'prod'")


def check_own(config: Config, bucket: s3.IBucket | None, key: kms.IKey | None) -> None:
    """Raise UsageError if a bucket or a key of the app contradicts the configuration."""
    policy = config.storage
    if key is not None and policy.encryption != "service-managed":
        raise UsageError(
            "key and [storage] encryption both name the key of the queues and the bucket: leave out one of them."
            " If you change from one key to the other, add the former to [storage] former_keys"
        )
    if bucket is None:
        return
    if policy.removal == "delete":
        raise UsageError(
            'bucket and [storage] removal = "delete" exclude each other: the stack empties and deletes only a bucket that it'
            ' makes. Set removal = "keep", and delete your own bucket yourself'
        )


def check_region(stack: Stack, config: Config, origin: str = "") -> None:
    """Raise UsageError if a key or a topic is not in the stage's Region, or if a stream would have copies in it.

    For a reader, the stage's Region is ``origin``. AWS KMS: a service uses keys of its own Region only. CloudWatch: an
    alarm notifies topics of its own Region only, so topics in the Regions of readers are accepted, too.
    """
    home = origin or stack.region
    if Token.is_unresolved(home):
        return
    for key, arn in _list_regional(config):
        region = arn.split(":")[3]
        if region == home or (key == _NOTIFY and region in config.replicas):
            continue
        held = f"and its origin is {home}" if origin else f"and the stack {stack.stack_name} of {home}"
        raise UsageError(
            f"{key}: {arn} is of {region}, {held}: name one of {home}, or give each Region a configuration of its own"
        )
    for problem in check_own_region(config, home):
        raise UsageError(problem)


def find_stack_offer(construct: Construct, config: Config) -> Offer:
    """Find what the Region of a construct's stack offers.

    Raise UsageError if the configuration cannot work in this Region, and warn if it works only under a condition. If the
    Region is not known, the template is made for a commercial Region.
    """
    region = Stack.of(construct).region
    if Token.is_unresolved(region):
        return find_offer("")
    problems = list(check_offer(config, region))
    if problems:
        raise UsageError(f"{ConfigError(problems)}\nOr give each Region a configuration of its own")
    for number, remark in enumerate(advise_offer(config, region)):
        Annotations.of(construct).add_warning_v2(f"tidetable:region:{number}", remark)
    return find_offer(region)


def check_role(stack: Stack, config: Config, role: str, origin: str | None) -> None:
    """Raise UsageError unless the stack may be the stage itself (role "origin") or a reader of its copies."""
    if role not in ROLES:
        raise UsageError(
            f'role {role!r}: use "reader" for a stack that reads copies in another Region, or leave role out'
        )
    if role == "origin":
        if origin is not None:
            raise UsageError(f'origin {origin!r}: only a reader has an origin. Add role "reader", or leave origin out')
        return
    if origin is None:
        raise UsageError('role "reader": add origin, the Region of the stage, such as "us-east-1"')
    if not REGION.fullmatch(origin):
        raise UsageError(f'origin {origin!r}: this is not the name of a Region, such as "us-east-1"')
    if Token.is_unresolved(stack.region):
        raise UsageError(
            'role "reader": the Region of the stack must be known. Synthesise with credentials and AWS_REGION, or set the env of'
            " the stack"
        )
    if origin == stack.region:
        raise UsageError(
            f"origin {origin!r}: this is the stack's own Region. A reader is in another Region: set AWS_REGION, or leave out role"
            " and origin to deploy the stage itself"
        )
    if stack.region not in config.replicas:
        raise UsageError(
            f'role "reader": no stream has copies in {stack.region}. Add "{stack.region}" to replicas of a stream, and deploy the'
            f" stage in {origin} first. To delete a reader that is not needed any more: aws cloudformation delete-stack"
            f" --stack-name {stack.stack_name} --region {stack.region}"
        )


def _list_regional(config: Config) -> Iterator[tuple[str, str]]:
    if config.storage.encryption.startswith("arn:"):
        yield "[storage] encryption", config.storage.encryption
    for name, stream in config.streams.items():
        if stream.table.encryption.startswith("arn:"):
            yield f"[streams.{name}.table] encryption", stream.table.encryption
    for topic in config.observability.topics:
        yield _NOTIFY, topic


def check_alone(construct: Construct, stage: str, bucket: s3.IBucket | None) -> None:
    """Raise UsageError if the app has a stage of the same name in the same account and Region, or with the same bucket.

    The names of tables, buckets and metrics contain the stage's name. The keys of objects in a bucket contain only the
    stream's name. A reader has no bucket of its own.
    """
    others = _stages.setdefault(construct.node.root, [])
    for name, other, held in others:
        if name == stage and _find_place(other) == _find_place(construct):
            raise UsageError(
                f"stage {stage!r}: {other.node.path} has this name already, and the tables of both would have the same names."
                " Choose another stage, or give their stacks the env of different Regions"
            )
        if held is not None and bucket is not None and _is_same_bucket(held, bucket):
            raise UsageError(
                f"bucket: {other.node.path} uses this bucket already, and streams of the same name would share their objects."
                " Give each stage a bucket of its own"
            )
    others.append((stage, construct, bucket))


def _find_place(construct: Construct) -> tuple[str, ...]:
    """Return account and Region. A value that is not known yet equals any other unknown value."""
    stack = Stack.of(construct)
    return tuple("" if Token.is_unresolved(value) else value for value in (stack.account, stack.region))


def _is_same_bucket(bucket: s3.IBucket, other: s3.IBucket) -> bool:
    if bucket is other:
        return True
    names = bucket.bucket_name, other.bucket_name
    return not any(Token.is_unresolved(name) for name in names) and names[0] == names[1]
