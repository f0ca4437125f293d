"""Simulated days of a stage: its runs, its faults, its restores, backfills and changes, decided by the course and a seed."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from strict import Fault, Kind
from strict.faults import NoAnswer
from strict.refusals import Refusal
from tests.fakes.refresher import expect_failures
from tests.fakes.stage import Killed, Stage
from tests.timelapse import course
from tests.timelapse.checks import Checks
from tests.timelapse.course import START
from tests.timelapse.rolled import RollupChecks
from tests.timelapse.traffic import Traffic
from tests.timelapse.vocabulary import configuration, derive_rollups
from tidetable.catalog import Backfill, Opening, State
from tidetable.config import Stream, parse
from tidetable.errors import ArchiveMismatch, BadBackfill
from tidetable.lifecycle.backfill import end_backfills, open_backfill

STEP = timedelta(minutes=10)
# After a healthy run the lifecycle rests for five steps, a tenth as often as its schedule: a stage must tolerate missing
# runs, and the simulation takes much less time.
REST = 5 * STEP
# Errors of the code; no fault of the service looks like these.
BUGS = ("AssertionError", "AttributeError", "KeyError", "NotImplementedError", "TypeError", "ValueError")
BACKFILL_SECONDS = 280.0
# Of so many steps, after one all aggregates are compared.
CHECKED = 200
# Write and read units of an import; None: on demand.
Units = tuple[int | None, int | None]


@dataclass
class Restore:
    """A restore in progress."""

    stream: str
    label: str
    days: int


class Life:
    """One run from a seed."""

    def __init__(self, seed: int, days: int) -> None:
        self.days = days
        self.settings = course.policies_on(0)
        self.stage = Stage(START, configuration(self.settings, deletes=True), seed, stale_seconds=2.0)
        self.stage.scaling.strike = self._strike_scaling
        self.stage.mappings.count = self._strike_mappings
        self.outcomes: Counter[str] = Counter()
        self.checks = Checks(self.stage, self.settings, self.outcomes)
        self.traffic = Traffic(self.stage, self.outcomes, self.checks.complaints)
        self.rolled = RollupChecks(self.stage, self.traffic.sent, self.outcomes, self.checks.complain)
        # Also the policies of removed streams.
        self.policies: dict[str, Stream] = dict(self.stage.config.streams)
        self._day = 0
        self._asleep_until = self._refresher_asleep_until = START
        self._restores: list[Restore] = []
        self._pending: list[str] = []
        self._attempts = {
            "sweep": self._sweep,
            "import": self._import,
            "early import": self._import_early,
            "end of import": self._end,
            "late import": self._import_late,
        }

    @property
    def complaints(self) -> list[str]:
        return self.checks.complaints

    def run(self) -> None:
        """Simulate all days. Then wait until queued events are written and expired tables are deleted."""
        stage = self.stage
        while stage.run_lifecycle().done:
            stage.clock.sleep(5)
        end = START + timedelta(days=self.days)
        due = stage.clock.now()
        while stage.clock.now() < end:
            self._begin_day()
            self._decide_faults()
            self.traffic.send_all(self.settings)
            self._scale()
            if stage.clock.now() >= self._asleep_until:
                rest = REST if self._lifecycle() else STEP
                self._asleep_until = max(self._asleep_until, due + rest)
            self._work()
            stage.drain()
            self._drain_saved()
            self._refresh()
            if stage.chance.random() < 1 / CHECKED:
                self.rolled.check()
            due = max(due + STEP, stage.clock.now())
            stage.clock.time = due
        self._calm()

    def _calm(self) -> None:
        """Continue without faults until the queue is empty, and two more days, until a sweep may remove every unused
        object.
        """
        stage = self.stage
        stage.dynamo.faults.clear()
        stage.queue.refuses, stage.values.refuses, stage.bucket_fails = False, False, 0.0
        self._refresher_asleep_until = stage.clock.now()
        for step in range(2 * 144):
            self._lifecycle()
            self._work()
            stage.drain()
            self._drain_saved()
            self._refresh()
            stage.clock.sleep(STEP.total_seconds())
            if step >= 30 and not (stage.queue.messages or self._saved() or self._restores or self._pending):
                break
        self.checks.check_expired()
        self.checks.check_feeds()
        # A run that was killed holds its lease for some minutes.
        stage.clock.sleep(600)
        assert stage.refresh()
        self.rolled.check(START)
        stage.clock.sleep(2 * 86_400)
        for _ in range(3):
            self._sweep()

    def _begin_day(self) -> None:
        """Make the changes of a day."""
        day = (self.stage.clock.now() - START).days
        if day == self._day:
            return
        self._day = day
        self._pending.append("sweep")
        self._meddle()
        if day in course.CHANGES or day in (course.KEPT_DAY, course.KEPT_DAY + 1):
            self.outcomes[f"change {day}"] = 1
            self.settings.clear()
            self.settings.update(course.policies_on(day))
            self.checks.deletes = day != course.KEPT_DAY
            self.stage.config = parse(configuration(self.settings, deletes=self.checks.deletes))
            self.policies |= self.stage.config.streams
        if day in course.RESTORES:
            self._restores.append(Restore(*course.RESTORES[day]))
        self._pending += {course.IMPORT_DAY: ["import"], course.EARLY_DAY: ["early import", "late import"]}.get(day, [])

    def _meddle(self) -> None:
        """Each day somebody deletes the mapping of a table, and disables that of another."""
        mapped = sorted(mapping.table for mapping in self.stage.mappings.list() if mapping.state == "Enabled")
        if len(mapped) > 1:
            self.stage.mappings.remove(mapped[-1])
            self.stage.mappings.disable(mapped[-2])

    def _decide_faults(self) -> None:
        """Choose the faults: mostly a few requests fail, and sometimes a service is down for some time."""
        stage, chance = self.stage, self.stage.chance
        now = stage.clock.now()
        if now.minute >= STEP.seconds // 60:
            return
        stage.dynamo.faults.clear()
        stage.bucket_fails = chance.choice([0.0, 0.0, 0.05])
        if self._day == course.BUCKET_DAY and now.hour in course.BUCKET_HOURS:
            stage.bucket_fails = 1.0
        stage.values.refuses = stage.bucket_fails == 1.0 or chance.random() < 0.03
        stage.queue.refuses = chance.random() < 0.02
        for kind in (*Kind,):
            if chance.random() < 0.2 and kind is not Kind.GONE:
                stage.dynamo.faults.add(Fault(kind, probability=0.02, seconds=chance.uniform(0, 3)))
        if chance.random() < 0.02:
            # A number of requests, not a duration: the clock stands still while a request is served.
            stage.dynamo.faults.add(Fault(Kind.GONE, times=chance.randint(5, 60)))
        if chance.random() < 0.02:
            # With a rest, shorter than the time by which tables are made ahead.
            self._asleep_until = now + timedelta(minutes=chance.randint(10, 60))

    def _strike_scaling(self) -> None:
        self.stage.client.count()
        if self.stage.dynamo.faults.active and self.stage.chance.random() < 0.1:
            raise ConnectionError("Application Auto Scaling is out of reach")

    def _strike_mappings(self) -> None:
        self.stage.client.count()
        if self.stage.dynamo.faults.active and self.stage.chance.random() < 0.1:
            raise ConnectionError("AWS Lambda made the change, and its answer was lost")

    def _scale(self) -> None:
        """Application Auto Scaling follows the traffic: sometimes it raises a registered table."""
        stage = self.stage
        for name, (_, policy) in list(stage.scaling.tended.items()):
            table = stage.dynamo.account.tables.get(name)
            if table is None or policy.write is None or table.on_demand or stage.chance.random() > 0.05:
                continue
            units = {"WriteCapacityUnits": policy.write.max, "ReadCapacityUnits": table.read}
            with suppress(Refusal, NoAnswer):
                stage.dynamo.account.settle()
                self.checks.call("UpdateTable", {"TableName": name, "ProvisionedThroughput": units})
                self.outcomes["scaled"] += 1

    def _drain_saved(self) -> None:
        """Write saved messages as the runs of each minute of a step do."""
        for _ in range(STEP // timedelta(minutes=1)):
            self.stage.drain_saved()
            if not self._saved():
                break

    def _saved(self) -> bool:
        return any(key.startswith("saved/") for key in self.stage.values.blobs)

    def _lifecycle(self) -> bool:
        """Run the lifecycle once; whether the run was healthy."""
        stage = self.stage
        killed = stage.chance.random() < 0.01
        stage.client.calls, stage.client.allowance = 0, stage.chance.randint(1, 40) if killed else None
        self.checks.note_ages()
        try:
            report = stage.run_lifecycle()
        except Killed:
            self.outcomes["lifecycle killed"] += 1
            return False
        except Exception as error:  # The catalog is out of reach; the next run reads it.
            return self._count_failure("lifecycle", error)
        finally:
            stage.client.allowance = None
        for done in report.done:
            self.outcomes[f"{done.action.name} {done.outcome}"] += 1
            if done.outcome == "failed" and done.detail.startswith(BUGS):
                self.complaints.append(done.detail)
        for step in report.feeds:
            self.outcomes[f"{step.action} {step.outcome}"] += 1
            if step.detail.startswith(BUGS):
                self.complaints.append(step.detail)
        if report.healthy and not report.count("deferred") and not stage.dynamo.faults.active:
            self.checks.check_ladder()
            self.checks.check_feeds()
        return bool(report.healthy)

    def _work(self) -> None:
        """Do the work of operators and schedules; a failed task is repeated at the next step."""
        for restore in list(self._restores):
            if self._restore(restore):
                self._restores.remove(restore)
        for task in list(self._pending):
            if self._attempts[task]():
                self._pending.remove(task)

    def _refresh(self) -> None:
        """Run the refresher: mostly once, sometimes twice, and sometimes not for hours; some runs are killed."""
        stage, now = self.stage, self.stage.clock.now()
        if now < self._refresher_asleep_until or stage.chance.random() < 0.6:
            return
        if stage.chance.random() < 0.015:
            self._refresher_asleep_until = now + timedelta(minutes=stage.chance.randint(30, 400))
            return
        for _ in range(2 if stage.chance.random() < 0.05 else 1):
            killed = stage.chance.random() < 0.03
            stage.client.calls, stage.client.allowance = 0, stage.chance.randint(1, 60) if killed else None
            try:
                # Faults let streams fail. What no fault explains is a complaint, below.
                with expect_failures(""):
                    report = stage.refresh()
            except Killed:
                self.outcomes["refresher killed"] += 1
                continue
            except Exception as error:  # The catalog is out of reach.
                self._count_failure("refresher", error)
                continue
            finally:
                stage.client.allowance = None
            if report is None:
                self.outcomes["refresher waited"] += 1
                continue
            for what in ("sealed", "resealed", "added"):
                self.outcomes[what] += getattr(report, what)
            for what in ("blocked", "over", "failed"):
                self.outcomes[f"refresh {what}"] += len(getattr(report, what))
            self.complaints.extend(
                trouble for trouble in [*report.failed, *report.over] if any(bug in trouble for bug in BUGS)
            )

    def _restore(self, restore: Restore) -> bool:
        """Restore a period; whether it is done, now or in an earlier call whose answer was lost."""
        stage, checks = self.stage, self.checks
        key, before = (restore.stream, restore.label), checks.kept.get((restore.stream, restore.label))
        checks.kept[key] = stage.clock.now() + timedelta(days=restore.days)
        killed = stage.chance.random() < 0.3
        stage.client.calls, stage.client.allowance = 0, stage.chance.randint(1, 60) if killed else None
        try:
            done = stage.restore(restore.stream, restore.label, keep_days=restore.days, within=200)
        except Killed:
            self.outcomes["restore killed"] += 1
            return False
        except ArchiveMismatch as error:
            self.complaints.append(f"restore of {key}: {error}")
            return True
        except Exception as error:
            if "it has its table" not in str(error):
                self._count_failure("restore", error)
                return False
            if before is not None:
                checks.kept[key] = before
        else:
            if done.state is State.RESTORING:
                return False
        finally:
            stage.client.allowance = None
        self.outcomes["restored"] += 1
        checks.check_span(self.traffic.sent, self.policies[restore.stream], restore.label)
        return True

    def _sweep(self) -> bool:
        try:
            swept = self.stage.sweep()
        except Exception as error:
            return self._count_failure("sweep", error)
        for what in ("orphans", "expired", "unknown"):
            self.outcomes[f"swept {what}"] += getattr(swept, what)
        return not swept.failures

    def _import(self) -> bool:
        return self._open("weekly", course.IMPORT, timedelta(days=2), 60)

    def _import_late(self) -> bool:
        """Import events of a day that rollups have sealed, and whose tables are closed."""
        return self._open("daily", course.LATE_IMPORT, timedelta(hours=5), 40, (None, None))

    def _import_early(self) -> bool:
        """Make a backfill and end it as soon as its events are stored."""
        if not self._open("texts", course.EARLY_IMPORT, timedelta(days=5), 30):
            return False
        self._pending.append("end of import")
        return True

    def _open(
        self, stream: str, span: tuple[datetime, datetime], length: timedelta, count: int, units: Units = (20, 5)
    ) -> bool:
        stage = self.stage
        until = stage.clock.now() + length
        backfill = Backfill(stream, *span, Opening(until, *units))
        try:
            report = open_backfill(backfill, stage.begin_run("import", lambda: BACKFILL_SECONDS))
        except Exception as error:
            return self._count_failure("import", error)
        if not report.healthy:
            return False
        for name in (stream, *(name for name in derive_rollups(self.settings) if name.startswith(f"{stream}-"))):
            self.checks.opened[name, span] = until
        stage.clock.sleep(10)
        self.traffic.import_history(stream, span, count)
        self.outcomes["imported"] += count
        return True

    def _end(self) -> bool:
        try:
            end_backfills("texts", self.stage.begin_run("end", lambda: BACKFILL_SECONDS))
        except Exception as error:
            return self._count_failure("end of import", error)
        self.outcomes["import ended"] += 1
        self.checks.opened["texts", course.EARLY_IMPORT] = self.stage.clock.now()
        return True

    def _count_failure(self, what: str, error: Exception) -> bool:
        """Count a failure by a fault, or complain about an error of the code; False, so that the task is repeated."""
        self.outcomes[f"{what} failed"] += 1
        if type(error).__name__ in BUGS or (isinstance(error, BadBackfill) and "is under way" not in str(error)):
            self.complaints.append(f"{what}: {type(error).__name__}: {error}")
        return False
