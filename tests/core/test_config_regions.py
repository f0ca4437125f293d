"""What Regions do not offer: which settings cannot work there, and which need a licence."""

import pytest

from tidetable.config import parse
from tidetable.config.regions import advise_offer, check_offer, find_offer, find_partition

STREAM = '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }\n'
ALL = '[api]\nsnap_start = true\ntls = "1.3"\n[observability]\ntracing = true\n'
SNAPSHOTS, TRACES, TLS = "api.snap_start", "observability.tracing", "api.tls"

# Region: its partition, the keys that are refused there, JSON logs of functions, the class of the access log.
REGIONS: dict[str, tuple[str, tuple[str, ...], bool, bool]] = {
    "us-east-1": ("aws", (), True, True),
    "eu-central-1": ("aws", (), True, True),
    "mx-central-1": ("aws", (), True, True),
    "us-west-2": ("aws", (), True, True),
    "ap-east-1": ("aws", (), True, True),
    "ap-east-2": ("aws", (SNAPSHOTS,), True, True),
    "ap-southeast-6": ("aws", (SNAPSHOTS,), True, True),
    "cn-north-1": ("aws-cn", (SNAPSHOTS, TRACES), True, False),
    "cn-northwest-1": ("aws-cn", (SNAPSHOTS, TRACES), True, False),
    "us-gov-west-1": ("aws-us-gov", (SNAPSHOTS, TLS), False, False),
    "us-gov-east-1": ("aws-us-gov", (SNAPSHOTS, TLS), False, False),
    "eusc-de-east-1": ("aws-eusc", (SNAPSHOTS, TLS), False, False),
    "us-iso-east-1": ("aws-iso", (SNAPSHOTS, TLS), False, False),
    "us-isob-east-1": ("aws-iso-b", (SNAPSHOTS, TLS), False, False),
    "us-isof-south-1": ("aws-iso-f", (SNAPSHOTS, TLS), False, False),
    "eu-isoe-west-1": ("aws-iso-e", (SNAPSHOTS, TLS), False, False),
}


@pytest.mark.parametrize("region", REGIONS)
def test_a_region_offers_this(region: str) -> None:
    partition, refused, log_levels, log_class = REGIONS[region]
    assert find_partition(region) == partition
    problems = list(check_offer(parse(ALL + STREAM), region))
    assert [problem.partition(":")[0] for problem in problems] == list(refused)
    assert all(f" {region} has no " in problem for problem in problems)
    assert list(check_offer(parse(STREAM), region)) == []
    offer = find_offer(region)
    assert (offer.log_levels, offer.log_class) == (log_levels, log_class)


def test_a_region_that_is_not_known_counts_as_commercial() -> None:
    assert find_offer("") == find_offer("us-east-1")


@pytest.mark.parametrize("region", REGIONS)
def test_only_china_asks_for_a_licence(region: str) -> None:
    remarks = list(advise_offer(parse(STREAM), region))
    if not region.startswith("cn-"):
        assert remarks == []
        return
    assert remarks == [
        (
            f"api.auth: in {region}, requests with keys get 403 until the account has an ICP licence for API Gateway in this"
            ' Region; only signed requests (auth = "iam") work without it: docs/start/deploy.md'
        ),
        (
            f"api: in {region}, requests without credentials get 403 until the account has an ICP licence: /v1/health,"
            " /console"
        ),
    ]


@pytest.mark.parametrize(
    ("settings", "keyed", "open_routes"),
    [
        ('[api]\nauth = "iam"\n', False, "/v1/health, /console"),
        ('[api]\nauth = ["api-key", "iam"]\nconsole = false\n', True, "/v1/health"),
        (
            '[api]\nauth = "iam"\nconsole = false\ncors = ["https://a.example"]\n[doors]\ninflux = true\ncloudevents = true\n',
            False,
            "/v1/health, /ping, /health, OPTIONS of cloudevents, OPTIONS of pages of other origins (cors)",
        ),
    ],
)
def test_what_needs_the_licence_follows_from_the_settings(settings: str, keyed: bool, open_routes: str) -> None:
    *by_key, others = advise_offer(parse(settings + STREAM), "cn-north-1")
    assert len(by_key) == keyed
    assert others.endswith(f"licence: {open_routes}")
