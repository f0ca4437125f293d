"""The schedule, the custom resource, and the metrics that alarms and the dashboard show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.infra.synth import ALL_GOES, LIMITED, Template, template

ROOT = Path(__file__).parents[2]


def _schedule(template: Template, name: str) -> dict[str, Any]:
    return next(one for id, one in template.all("AWS::Scheduler::Schedule").items() if id.startswith(name))


def test_large_values_are_swept_daily(dev: Template) -> None:
    schedule = _schedule(dev, "LifecycleSweeps")
    assert schedule["ScheduleExpression"] == "rate(1 day)"
    assert schedule["Target"]["Arn"] == {"Fn::GetAtt": [dev.id_of("sweeper"), "Arn"]}
    assert schedule["State"] == "ENABLED"
    assert json.loads(schedule["Target"]["Input"]) == {"source": "schedule"}


def test_the_schedule_calls_the_lifecycle_every_five_minutes(dev: Template) -> None:
    schedule = _schedule(dev, "LifecycleSchedule")
    assert schedule["ScheduleExpression"] == "rate(5 minutes)"
    assert schedule["State"] == "ENABLED"
    assert schedule["Target"]["Arn"] == {"Fn::GetAtt": [dev.id_of("lifecycle"), "Arn"]}
    assert json.loads(schedule["Target"]["Input"]) == {"source": "schedule"}


def test_a_run_that_is_not_delivered_or_fails_leaves_a_dead_letter(dev: Template) -> None:
    schedule = _schedule(dev, "LifecycleSchedule")
    configs = dev.all("AWS::Lambda::EventInvokeConfig").values()
    config = next(config for config in configs if config["FunctionName"] == {"Ref": dev.id_of("lifecycle")})
    assert "LifecycleDeadLetters" in json.dumps(schedule["Target"]["DeadLetterConfig"])
    assert "LifecycleDeadLetters" in json.dumps(config["DestinationConfig"]["OnFailure"])


def test_the_schedules_go_before_the_tables_do_and_so_do_the_messages_of_restores(dev: Template) -> None:
    """A run that began while the stack is deleted would create tables again."""
    (tables,) = dev.all("Custom::TidetableTables")
    for name in ("LifecycleSchedule", "LifecycleRestores", "LifecycleRestorerRestoresMessages"):
        (first,) = (resource for id, resource in dev.resources.items() if re.fullmatch(rf"{name}\w{{0,12}}", id))
        assert tables in first["DependsOn"], name


def test_workers_of_restores_are_woken_every_five_minutes(dev: Template) -> None:
    schedule = _schedule(dev, "LifecycleRestores")
    assert (schedule["ScheduleExpression"], schedule["State"]) == ("rate(5 minutes)", "ENABLED")
    assert schedule["Target"]["Arn"] == {"Fn::GetAtt": [dev.id_of("restorer"), "Arn"]}
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0


def test_tables_are_made_when_the_functions_may_make_them(dev: Template) -> None:
    (resource,) = (resource for resource in dev.resources.values() if resource["Type"] == "Custom::TidetableTables")
    depends = set(resource["DependsOn"])
    assert {dev.id_of("deployment"), dev.id_of("archiver"), dev.id_of("feed")} <= depends
    assert set(dev.all("AWS::DynamoDB::Table")) <= depends
    for name in ("deployment", "archiver", "feed"):
        function = dev.resources[dev.id_of(name)]
        assert any("DefaultPolicy" in id for id in function["DependsOn"])


def test_the_custom_resource_may_take_longer_than_its_function(dev: Template) -> None:
    (resource,) = dev.all("Custom::TidetableTables").values()
    assert int(resource["ServiceTimeout"]) > dev.functions()["deployment"]["Timeout"]


def test_the_provider_waits_as_long_as_the_deployments_function_runs(dev: Template) -> None:
    (provider,) = (one for id, one in dev.all("AWS::Lambda::Function").items() if "Providerframework" in id)
    assert provider["Timeout"] > dev.functions()["deployment"]["Timeout"]


def test_the_providers_logs_expire_as_the_others_do(dev: Template) -> None:
    (provider,) = (one for id, one in dev.all("AWS::Lambda::Function").items() if "Providerframework" in id)
    group = dev.resources[provider["LoggingConfig"]["LogGroup"]["Ref"]]
    assert group["Properties"]["RetentionInDays"] == 30
    assert group["DeletionPolicy"] == "Delete"


def test_the_deployments_function_is_called_and_waited_for_so_that_no_queue_hears_of_its_failures(
    dev: Template,
) -> None:
    asynchronous = {config["FunctionName"]["Ref"] for config in dev.all("AWS::Lambda::EventInvokeConfig").values()}
    assert dev.id_of("deployment") not in asynchronous
    assert dev.id_of("lifecycle") in asynchronous


def _before(template: Template, id: str, seen: set[str]) -> set[str]:
    """Every resource that is made before a resource."""
    resource = template.resources[id]
    named = resource.get("DependsOn", [])
    named = {named} if isinstance(named, str) else set(named)
    text = json.dumps(resource.get("Properties", {}))
    named |= set(re.findall(r'"Ref": "(\w+)"', text)) | set(re.findall(r'"Fn::GetAtt": \["(\w+)"', text))
    for resource in (named & set(template.resources)) - seen:
        seen.add(resource)
        _before(template, resource, seen)
    return seen


def test_the_stage_stands_only_when_all_else_is_made(dev: Template) -> None:
    (standing,) = dev.all("Custom::TidetableStanding")
    assert _before(dev, standing, set()) == set(dev.resources) - {standing}


def test_the_catalog_is_protected_by_the_last_resource_if_it_is_kept(dev: Template) -> None:
    for made, expected in ((dev, "true"), (template("dev", *ALL_GOES), "false")):
        (standing,) = made.all("Custom::TidetableStanding").values()
        assert standing["protected"] == expected


def test_events_are_accepted_once_their_tables_are_there(dev: Template) -> None:
    (tables,) = dev.all("Custom::TidetableTables")
    (stage,) = dev.all("AWS::ApiGateway::Stage")
    assert tables in _before(dev, stage, set())


def test_a_change_of_the_configuration_runs_it_again(dev: Template) -> None:
    def digest(one: Template) -> str:
        (resource,) = one.all("Custom::TidetableTables").values()
        return str(resource["configuration"])

    changed = template("dev", ("retention = 14", "retention = 15"))
    commented = template("dev", ("# Seismic stations", "# Stations that measure"))
    assert digest(changed) != digest(dev) == digest(commented)


def test_a_change_of_the_catalogs_format_runs_it_again(dev: Template) -> None:
    """With the same configuration: so older code is refused by a stage that newer code has written."""
    for kind in ("Custom::TidetableTables", "Custom::TidetableStanding"):
        assert [made["catalog_format"] for made in dev.all(kind).values()] == ["2"]


def test_the_quotas_alarm_rings_at_four_fifths_of_the_accounts_quota(dev: Template) -> None:
    def threshold(made: Template) -> tuple[str, float]:
        (alarm,) = (
            one for id, one in made.all("AWS::CloudWatch::Alarm").items() if id.startswith("AlarmsTableQuotaNear")
        )
        return alarm["MetricName"], alarm["Threshold"]

    assert threshold(dev) == ("PeriodTables", 2000)
    assert threshold(template("dev", *LIMITED)) == ("PeriodTables", 4000)


@pytest.mark.parametrize("handler, seconds", [("lifecycle", 300), ("deployment", 840), ("archiver", 300)])
def test_the_slow_functions_have_their_time(dev: Template, handler: str, seconds: int) -> None:
    assert dev.functions()[handler]["Timeout"] == seconds


def test_every_own_metric_that_an_alarm_or_the_dashboard_shows_is_counted_by_its_function(dev: Template) -> None:
    shown = {
        (one["Dimensions"][0]["Value"], one["MetricName"])
        for one in dev.all("AWS::CloudWatch::Alarm").values()
        if one.get("Namespace") == "Tidetable"
    }
    (board,) = dev.all("AWS::CloudWatch::Dashboard").values()
    text = json.dumps(board["DashboardBody"])
    shown |= {
        (service, name)
        for name, service in re.findall(r'\\"Tidetable\\",\\"(\w+)\\",\\"service\\",\\"([\w-]+)\\"', text)
    }
    assert len(shown) > 12
    for service, name in shown:
        handlers = ROOT / "lambdas" / "handlers"
        source = (handlers / f"{service.removeprefix('tidetable-dev-')}.py").read_text()
        # What several handlers share, only for those that import it.
        source += "".join(
            file.read_text() for file in handlers.glob("_[a-z]*.py") if f"handlers.{file.stem} " in source
        )
        written = (f'"{name}"', f"({name}=", f" {name}=", f'"{name.partition("_")[0]}_{{outcome}}"')
        assert any(text in source for text in written), (service, name)
