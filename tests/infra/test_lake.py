"""The database of the Iceberg tables, and the function that alone may change them."""

from tests.infra.synth import Template, actions

WRITES = {"glue:CreateTable", "glue:UpdateTable", "glue:DeleteTable"}
READS = {"glue:GetDatabase", "glue:GetTable", "glue:GetTables"}


def test_the_stage_has_a_database_without_tables_and_one_function_may_make_them(dev: Template) -> None:
    (database,) = dev.all("AWS::Glue::Database")
    found = dev.resources[database]["Properties"]
    assert (found["CatalogId"], found["DatabaseInput"]["Name"]) == ({"Ref": "AWS::AccountId"}, "tidetable_dev")
    assert dev.all("AWS::Glue::Table") == {}
    (statement,) = (statement for statement in dev.statements("lake") if "glue:GetTables" in statement["Action"])
    assert actions(statement) == READS | WRITES
    ends = [resource["Fn::Join"][1][-1] for resource in statement["Resource"]]
    assert ends == [":catalog", ":database/tidetable_dev", ":table/tidetable_dev/*"]
    others = dev.functions().keys() - {"lake"}
    assert [name for name in others if "glue:" in str(dev.statements(name))] == []


def test_the_hourly_run_begins_after_the_database_and_ends_before_it_is_deleted(dev: Template) -> None:
    ((id, schedule),) = (
        item for item in dev.all("AWS::Scheduler::Schedule").items() if item[0].startswith("LifecycleLakeRuns")
    )
    (database,) = dev.all("AWS::Glue::Database")
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"] == {"Fn::GetAtt": [dev.id_of("lake"), "Arn"]}
    assert database in dev.resources[id]["DependsOn"]
