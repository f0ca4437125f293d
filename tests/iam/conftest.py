"""The stack that goes to AWS, deployed once into the emulator with IAM enforced (authority.py says what is mended in it)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from local import Deployed, Emulator, deploy
from local.emulator import REGION, ROOT, can_move_clock
from local.http import Api
from local.stack import _run_cdk, make_aws_client
from tests.e2e.clock import OFFSET
from tests.worlds.configs import uncomment

# The targets of the feed of the stations: a queue, and a function that prints what it is called with.
CHANGES = "changes"
TARGETS = f"arn:aws:sqs:{REGION}:000000000000:{CHANGES}", f"arn:aws:lambda:{REGION}:000000000000:function:{CHANGES}"
_PRINTER = """
import json

def handler(event, context):
    for change in event["changes"]:
        print("CHANGE " + change["series"] + " " + change["id"])
"""
_FEED = (
    "\n[streams.stations]\n",
    f'\n[streams.stations]\nfeed = {{{{ targets = ["{TARGETS[0]}", "{TARGETS[1]}"] }}}}\n',
)
# A read replica, for callers who read the tables themselves.
_REPLICA = ('name = "by_status"', 'name = "reports"\nreplica = true\n[[streams.stations.index]]\nname = "by_status"')
# By the hour, the month that the tests let pass would have 744 buckets to seal, each as the one before.
_ROLLUP = (*uncomment("[[streams.quakes.rollup]]"), ('every = "1h"', 'every = "1d"'))
# Changes of the example configuration: every feature whose tables keep it for life, and a key for the tables of a stream.
FEATURES = (
    # Keys and signatures side by side.
    ('auth = "api-key"', 'auth = ["api-key", "iam"]'),
    # A door, for the function of the doors.
    ("influx = false", "influx = true"),
    ('delete_grace = "1d"', 'delete_grace = "0s"'),
    ('mode = "provisioned"', 'mode = "provisioned"\nautoscaling = {{ write = {{ min = 1, max = 40 }} }}'),
    ('encryption = "aws-owned"', 'encryption = "{first}"'),
    _FEED,
    _REPLICA,
    *_ROLLUP,
)
# The same stage later: of that only the rollup and the feed are still on, and new tables have another key.
PLAIN = (
    ('auth = "api-key"', 'auth = ["api-key", "iam"]'),
    # A door, for the function of the doors.
    ("influx = false", "influx = true"),
    ('delete_grace = "1d"', 'delete_grace = "0s"'),
    ('encryption = "aws-owned"', 'encryption = "{second}"'),
    _FEED,
    _REPLICA,
    ("former_keys = []", 'former_keys = ["{first}"]'),
    ('versions = "keep"', 'versions = "overwrite"'),
    ('cold = ["raw"]', "cold = []"),
    ('beyond = "s3"', 'beyond = "refuse"'),
    ('beyond = "chunks"', 'beyond = "refuse"'),
    *_ROLLUP,
)
# The name of sessions of a role in which the tests try what it may not do.
PROBE = "probe"
_DENIED = re.compile(r"DENIED (\S+) (\S+) (.*)")


@dataclass
class Stage:
    """The emulator, what is deployed in it, and two keys of the account."""

    emulator: Emulator
    deployed: Deployed
    keys: dict[str, str]
    seen: int = field(default=0)
    passed: timedelta = timedelta(0)

    def log(self) -> str:
        """What the emulator and its functions have said."""
        return self.emulator.log.read_text(errors="replace")

    def denials(self) -> list[tuple[str, ...]]:
        """Action, resource and principal of each denial since this was looked at last, less those that probes provoked."""
        found = [denial for denial in _DENIED.findall(self.log()) if not denial[2].endswith(f"/{PROBE}")]
        new, self.seen = found[self.seen :], len(found)
        return new

    def pass_time(self, time: timedelta) -> None:
        """Let so much time pass for the emulator and its functions, and what is due then be done by the schedule."""
        self.passed += time
        self.emulator.move_clock(OFFSET + self.passed)

    def reconfigure(self, changes: tuple[tuple[str, str], ...]) -> None:
        """Deploy again with another configuration."""
        file = configuration(self.emulator.folder / "later.toml", changes, self.keys)
        _run_cdk(self.emulator, "deploy", "--require-approval", "never", "-c", f"config={file}")


def configuration(file: Path, changes: tuple[tuple[str, str], ...], keys: dict[str, str]) -> Path:
    """The example configuration with changes, each of which must have something to change."""
    text = (ROOT / "tidetable.toml").read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new.format(**keys), 1)
    file.write_text(text)
    return file


def make_targets(endpoint: str) -> None:
    """The queue and the function of the feed, which are not the stage's."""
    make_aws_client(endpoint, "sqs").create_queue(QueueName=CHANGES)
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = make_aws_client(endpoint, "iam").create_role(RoleName=CHANGES, AssumeRolePolicyDocument=document)["Role"]
    code = BytesIO()
    with ZipFile(code, "w") as archive:
        archive.writestr("target.py", _PRINTER)
    make_aws_client(endpoint, "lambda").create_function(
        FunctionName=CHANGES,
        Runtime="python3.13",
        Role=role["Arn"],
        Handler="target.handler",
        Code={"ZipFile": code.getvalue()},
    )


@pytest.fixture(scope="package")
def stage() -> Iterator[Stage]:
    program = Path(__file__).with_name("authority.py")
    with Emulator(clock=can_move_clock(), program=program, variables={"AUTH": "true"}) as emulator:
        # First, as the clock of a stage must not go back: the emulator's scheduler would wait until the time of the deploy.
        if can_move_clock():
            emulator.move_clock(OFFSET)
        kms = make_aws_client(emulator.endpoint, "kms")
        keys = {name: kms.create_key()["KeyMetadata"]["Arn"] for name in ("first", "second")}
        assert all(f":kms:{REGION}:" in arn for arn in keys.values())
        make_targets(emulator.endpoint)
        file = configuration(emulator.folder / "first.toml", FEATURES, keys)
        made = Stage(emulator, deploy(emulator, config=file), keys)
        assert made.denials() == []
        yield made


@pytest.fixture(scope="package")
def api(stage: Stage) -> Api:
    return Api(stage.deployed)
