"""The fixed lines of a stage, by hand: $0.30 per metric, $0.10 per alarm, $1.00 for a key, $0.2628 per queue."""

import pytest

from bill.fixed import count_alarms, count_metrics, price_fixed
from tidetable.config import parse

STREAM = '[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 5\n{}\n[streams.s.key]\npartition_by = "series"\n'
ROLLUP = STREAM + '[[streams.s.rollup]]\nname = "h"\nevery = "1h"\nretention = "9d"\n'
FEED = 'feed = { targets = ["arn:aws:sqs:eu-central-1:123456789012:changes"] }'
TYPED = STREAM + '[streams.s.archive.columns]\nt = "double"\n'


@pytest.mark.parametrize(
    ("text", "alarms", "idle", "busy"),
    [
        (STREAM.format(""), 28, 10, 20),
        ('[api]\nauth = "iam"\n' + STREAM.format(""), 27, 10, 20),
        ('[api]\nauth = ["api-key", "iam"]\n' + STREAM.format(""), 29, 10, 20),
        ("[doors]\ninflux = true\n" + STREAM.format(""), 29, 10, 20),
        (TYPED.format(""), 30, 10, 20),
        (ROLLUP.format(""), 34, 18, 28),
        (STREAM.format(FEED), 28, 14, 24),
        (ROLLUP.format(FEED), 34, 22, 32),
    ],
)
def test_alarms_and_metrics_follow_from_the_configuration(text: str, alarms: int, idle: int, busy: int) -> None:
    config = parse(text)
    assert count_alarms(config) == alarms
    assert (count_metrics(config, busy=False), count_metrics(config, busy=True)) == (idle, busy)


@pytest.mark.parametrize(
    ("notify", "key"),
    [
        ("[]", None),
        ('["arn:aws:sns:us-east-1:123456789012:pager"]', None),
        ('["ops@example.com", "night@example.com"]', 1.0),
    ],
)
def test_a_topic_for_e_mails_has_one_key(notify: str, key: float | None) -> None:
    config = parse(f"[observability]\nnotify = {notify}\n" + STREAM.format(""))
    lines = {line.name: line.dollars for line in price_fixed(config, busy=True)}
    assert (lines["metrics"], lines["alarms"]) == pytest.approx((6.0, 2.8))
    assert lines.get("KMS key") == key


@pytest.mark.parametrize(("text", "queues"), [(STREAM, 5), (ROLLUP, 6)])
def test_queues_cost_without_messages(text: str, queues: int) -> None:
    """15 polls a minute in 730 hours are 657,000, at $0.40 per million."""
    (line,) = (line for line in price_fixed(parse(text.format("")), busy=False) if line.name == "queues")
    assert line.dollars == pytest.approx(queues * 0.2628)
    assert line.how == f"{queues} queues that call functions, each polled 15 times per minute at $0.40 per million"


def test_the_drain_looks_for_saved_messages_every_minute() -> None:
    """43,800 runs of 0.1 GB-seconds at $0.0000133334, with the calls $0.06716; 87,600 lists at $0.005 per thousand, $0.438."""
    (line,) = (line for line in price_fixed(parse(STREAM.format("")), busy=False) if line.name == "drain, schedule")
    assert line.dollars == pytest.approx(0.50516, abs=1e-5)
    how = "43,800 runs per month at 1,024 MB, assumed: 100 ms; 87,600 lists of the bucket at $0.005 per thousand"
    assert line.how == how
