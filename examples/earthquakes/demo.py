"""`make demo`: the whole pipeline on this machine.

Every printed claim was checked; the first claim that fails ends the demo.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.earthquakes.data import drop_closing, make_earthquakes
from examples.earthquakes.steps import (
    CHANGES,
    PACKED,
    ROLLUP,
    check_changes,
    check_claim,
    compare_streams,
    pass_hour,
    print_line,
    receive_changes,
    show_expiry,
    show_newest,
    show_periods,
    show_rollup,
    store_events,
)
from local import ENGINES, Deployed, Emulator, deploy
from local.emulator import REGION, can_move_clock
from local.http import Api, invoke_lifecycle
from local.keep import end_remembered_stage, remember_stage
from local.packages import begin_fetch, find_bundle
from local.stack import make_aws_client
from local.up import describe_stage, read_config, show_config

# The least factor by which packs must save write units, for these events and batches.
_PACKS_SAVE = 10
STREAMS = ("quakes", "stations")
PACKED_STREAM = """
[streams.packed]
period = "day"
late = "7d"
retention = 14
key = { partition_by = "time", bucket = "24h" }
pack = { span = "1d" }
"""
FEED = f'feed = {{ targets = ["arn:aws:sqs:{REGION}:000000000000:{CHANGES}"] }}\n'
ROLLUP_OF_QUAKES = """
[[streams.quakes.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["mag"]
retention = "730d"
"""


def main() -> None:
    """Run the demo; status 1 and a line that begins with FAILED if a check failed."""
    parser = argparse.ArgumentParser(description="Deploy the stack into a local AWS emulator and try all of it.")
    parser.add_argument("--keep", action="store_true", help="leave it up, whatever happens, and print commands to try")
    parser.add_argument("--config", type=Path, default=Path("tidetable.toml"), help="a configuration with its streams")
    parser.add_argument("--engine", choices=ENGINES, default="emulator", help="what keeps the tables")
    options = parser.parse_args()
    own = show_config(options.config)
    if missing := [name for name in STREAMS if name not in own.streams]:
        sys.exit(
            f"FAILED: the demo sends earthquakes to {' and '.join(STREAMS)}, and {options.config} has no {missing[0]!r}. "
            f"For a configuration of your own: make local CONFIG={options.config}"
        )
    folder = Path(tempfile.mkdtemp(prefix="tidetable-demo-"))
    feeds = options.engine == "emulator" and PACKED not in own.streams
    rolls = not own.streams["quakes"].rollup
    options.config = add_streams(
        options.config, folder, feed=FEED if feeds else "", rollup=ROLLUP_OF_QUAKES if rolls else ""
    )
    config = read_config(options.config)
    show_added([name for name in config.streams if name not in own.streams])
    end_remembered_stage()
    begin_fetch()
    emulator = Emulator(engine=options.engine, clock=can_move_clock())
    deployed: Deployed | None = None
    failure = ""
    try:
        print_line("starting the emulator")
        emulator.start()
        if feeds:
            make_queue(emulator.endpoint)
        deployed = deploy(emulator, print_line, config=options.config)
        print_line("deployed")
        run_steps(emulator, deployed, Api(deployed), feeds=feeds, rolls=rolls)
    except (RuntimeError, SystemExit) as error:
        failure = str(error).removeprefix("FAILED: ")
    except Exception as error:
        traceback.print_exc()
        failure = f"{type(error).__name__}: {error}"
    finally:
        kept = options.keep and bool(emulator.pids)
        if kept:
            remember_stage(emulator)
        else:
            emulator.stop()
            shutil.rmtree(folder)
    if failure:
        print(f"FAILED: {failure}", file=sys.stderr, flush=True)
    if kept and deployed is not None:
        print(describe_stage(emulator.log, deployed, options.config, config))
        print_commands(deployed)
    elif kept:
        print(f"The emulator is still up at {emulator.endpoint}; its log: {emulator.log}. `make stop` ends it.")
    if failure:
        sys.exit(1)
    print_line("done")


def make_queue(endpoint: str) -> None:
    """Make the queue that a feed delivers to, which must be there before the feed."""
    make_aws_client(endpoint, "sqs").create_queue(QueueName=CHANGES)


def add_streams(config: Path, folder: Path, *, feed: str = "", rollup: str = "") -> Path:
    """A configuration with a stream in packs, and perhaps its feed and a rollup: this file, or an extended copy in the folder."""
    more = ("" if PACKED in read_config(config).streams else PACKED_STREAM + feed) + rollup
    if not more:
        return config
    copy = folder / "tidetable.toml"
    copy.write_text(config.read_text(encoding="utf-8") + more, encoding="utf-8")
    return copy


def show_added(streams: Sequence[str]) -> None:
    """Print the names of the streams that the demo has beside those of the configuration."""
    if streams:
        print(f"the demo adds: {', '.join(streams)}", flush=True)


def run_steps(
    emulator: Emulator, deployed: Deployed, api: Api, *, feeds: bool, rolls: bool, ahead: timedelta = timedelta()
) -> None:
    """Show everything, in order. ``ahead`` is the time by which the stage's clock is ahead of this machine's."""
    now = datetime.now(UTC) + ahead
    sent = drop_closing(make_earthquakes(now), now)
    units = {}
    with ThreadPoolExecutor(3) as pool:
        # The packed stream is first: its changes are on their way while the others are sent.
        units[PACKED] = store_events(api, PACKED, sent)
        changes = pool.submit(receive_changes, deployed, len(sent)) if feeds else None
        units["quakes"] = store_events(api, "quakes", sent)
        lifecycle = pool.submit(invoke_lifecycle, deployed)
        store_events(api, "stations", sent)
        each = units["quakes"] / units[PACKED]
        check_claim(
            each > _PACKS_SAVE,
            f"packs took a {each:.0f}th of the write units: {units[PACKED] / len(sent):.3f} per event",
        )
        if changes is not None:
            check_changes(changes.result(), sent)
        report = lifecycle.result()
        check_claim(
            report["healthy"] and not report["actions"], "the lifecycle has nothing to do right after the deploy"
        )
        # The clock takes two seconds.
        moved = pool.submit(pass_hour, emulator, ahead) if rolls and can_move_clock() else None
        show_periods(api)
        show_newest(api, sent)
        compare_streams(api, sent, now)
        if moved is not None:
            show_rollup(deployed, api, sent, moved.result())
        elif rolls:
            print_line(
                f"no aggregates from {ROLLUP}: hours with late events are computed minutes later, and this machine cannot move"
                " the stage's clock"
            )
    show_expiry(deployed, api, sent, now, find_bundle(emulator.folder / "cdk.out", "pyarrow"))


def print_commands(deployed: Deployed) -> None:
    """Lines to paste into a shell."""
    curl = f"curl -s -H 'x-api-key: {deployed.key}'"
    base = f"{deployed.api}/v1/streams"
    print("\nThe lifecycle was run as if it were eight days later: older days are closed, one is archived. Try:")
    print(f"  {curl} '{deployed.api}/v1/health'")
    print(f"  {curl} '{base}/quakes/events?from=-6h&limit=3'")
    print(f"  {curl} '{base}/stations/events?series=ci&from=-7d&order=asc&limit=3'")
    print(f"  {curl} '{base}/quakes/aggregate?from=-6d&step=1d&by=series&stat=count,max&field=mag'")
    print(f"  {curl} '{base}/quakes/periods'")


if __name__ == "__main__":
    main()
