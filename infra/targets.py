"""The targets of alarms: existing SNS topics, and the stack's own topic for e-mail addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aws_cdk import Annotations, Aws, CfnCondition, Duration, Fn, RemovalPolicy, Stack, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from tidetable.config.check_stage import MAX_TOPICS

from .errors import UsageError
from .function import Common
from .naming import make_arn


class Targets(Construct):
    """The topics of ``[observability] notify``, and a topic of the app.

    ``topic`` is the stack's own topic, which exists if there are e-mail addresses.
    """

    def __init__(self, scope: Construct, id: str, common: Common, *, topic: sns.ITopic | None = None) -> None:
        super().__init__(scope, id)
        policy = common.config.observability
        if topic is not None:
            self._check_room(policy.topics, has_own=bool(policy.addresses))
        topics = [
            sns.Topic.from_topic_arn(self, f"Given{number}", arn) for number, arn in self._select_topics(policy.topics)
        ]
        topics += [topic] if topic is not None else []
        self.topic = self._make_topic(common.stage, policy.addresses) if policy.addresses else None
        if self.topic is not None:
            topics.append(self.topic)
        self._actions: list[cloudwatch.IAlarmAction] = [actions.SnsAction(topic) for topic in topics]
        if not topics and common.stage != "local":
            Annotations.of(self).add_info(
                'No alarm notifies anybody: set [observability] notify, such as ["ops@example.com"], or look at the dashboard.'
            )

    def watch_alarm(self, alarm: cloudwatch.Alarm) -> None:
        """Notify every target when the alarm begins and when it ends."""
        alarm.add_alarm_action(*self._actions)
        alarm.add_ok_action(*self._actions)

    def _select_topics(self, topics: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield the topics of the stack's Region, each with its position in ``topics``.

        CloudWatch refuses an alarm that notifies a topic of another Region. A configuration may have a topic for each
        Region of its copies. If the stack's Region is not known yet, CloudFormation chooses the topic.
        """
        region, regions = Stack.of(self).region, [arn.split(":")[3] for arn in topics]
        for number, arn in enumerate(topics):
            if not Token.is_unresolved(region):
                if regions[number] == region:
                    yield number, arn
            elif len(set(regions)) == 1:
                yield number, arn
            else:
                condition = CfnCondition(self, f"Here{number}", expression=Fn.condition_equals(region, regions[number]))
                yield number, Token.as_string(Fn.condition_if(condition.logical_id, arn, Aws.NO_VALUE))

    def _check_room(self, topics: Sequence[str], *, has_own: bool) -> None:
        """Raise UsageError if an alarm cannot notify the app's topic in addition to these ``topics`` and, with
        ``has_own``, the stack's own topic.
        """
        region, regions = Stack.of(self).region, Counter(arn.split(":")[3] for arn in topics)
        present = max(regions.values(), default=0) if Token.is_unresolved(region) else regions[region]
        if present + has_own >= MAX_TOPICS:
            raise UsageError(
                f"alarm_topic: [observability] notify has {present + has_own} topics already (all e-mail addresses together are"
                f" one), and an alarm notifies at most {MAX_TOPICS}: name fewer there, or leave out alarm_topic"
            )

    def _make_topic(self, stage: str, addresses: tuple[str, ...]) -> sns.Topic:
        alarms = make_arn(self, "cloudwatch", "alarm", "*")
        ours = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}, "ArnLike": {"aws:SourceArn": alarms}}
        # CloudWatch may not use the key aws/sns, as AWS sets that key's policy: its messages would be lost silently
        # (SNS Developer Guide, "Managing encryption keys: compatibility with AWS services"). So the topic has a key of
        # its own.
        key = kms.Key(
            self,
            "Key",
            description=f"Encrypts the alarm messages of tidetable-{stage}",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
            pending_window=Duration.days(7),
        )
        # The topic's policy restricts who may publish. Conditions here might not hold for the calls that SNS makes to
        # KMS.
        key.add_to_resource_policy(_allow_alarms("kms:Decrypt", "kms:GenerateDataKey*", on="*"))
        topic = sns.Topic(self, "Topic", display_name=f"Tidetable {stage}", master_key=key, enforce_ssl=True)
        topic.add_to_resource_policy(_allow_alarms("sns:Publish", on=topic.topic_arn, conditions=ours))
        for address in addresses:
            topic.add_subscription(subscriptions.EmailSubscription(address))
        return topic


def _allow_alarms(*names: str, on: str, conditions: Mapping[str, Any] | None = None) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid="AlarmsMayNotify",
        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
        actions=list(names),
        resources=[on],
        conditions=conditions,
    )
