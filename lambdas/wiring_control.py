"""Builds the objects of the control plane, through boto3."""

from __future__ import annotations

from functools import cache

from aws import clients
from aws.archive.clients import LambdaArchiver
from aws.catalog import DynamoCatalog
from aws.notices import EventBus
from aws.objects import S3Objects, S3Values
from aws.scaling import ApplicationScaling
from aws.tables import DynamoTables
from settings import config, settings
from tidetable.large.sweep import Sweeper
from tidetable.lifecycle import Reconciler
from tidetable.ports import Catalog, Tables
from wiring import clock, pools, store

__all__ = ["catalog", "clock", "event_bus", "reconciler", "sweeper", "tables"]


@cache
def catalog() -> Catalog:
    return DynamoCatalog(clients.dynamodb(), settings().catalog_table)


@cache
def tables() -> Tables:
    return DynamoTables(clients.control_plane())


@cache
def event_bus() -> EventBus:
    return EventBus(clients.events())


@cache
def reconciler() -> Reconciler:
    archiver = LambdaArchiver(clients.functions, settings().archiver_function)
    scaling = ApplicationScaling(clients.scaling)
    return Reconciler(config(), settings().stage, catalog(), tables(), scaling, archiver, clock(), pools)


@cache
def sweeper() -> Sweeper:
    bucket = settings().archive_bucket
    values, notes = S3Values(clients.s3, bucket), S3Objects(clients.s3(), bucket)
    return Sweeper(config(), catalog(), store(), values, notes, clock(), pools)
