"""The targets of a feed: what each service is sent, what it takes at once, and what it says of each message."""

import io
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.feed_targets import FeedDeadLetters, make_target
from tidetable.errors import ChangesRefused, TargetBusy
from tidetable.feed.targets import FeedMessage

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:changes"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:upsert"
BUS = "arn:aws:events:eu-central-1:123456789012:event-bus/orders"
KINESIS = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
FIREHOSE = "arn:aws:firehose:eu-central-1:123456789012:deliverystream/orders"
MESSAGES = [FeedMessage(("s", "2026-03-01", id), json.dumps({"id": id}).encode()) for id in "abc"]
FAILED = {"ErrorCode": "InternalFailure"}
REFUSED = {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."}


class Client:
    """A client that keeps what it is sent, and answers as it is told."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**parameters: Any) -> Any:
            self.sent.append((operation, parameters))
            return self.answers[operation]

        return call


class Failing(Client):
    """A client whose every request is refused with a code."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __getattr__(self, operation: str) -> Any:
        def call(**_: Any) -> Any:
            raise ClientError({"Error": {"Code": self.code, "Message": "no"}}, operation)

        return call


def target(arn: str, client: Client) -> Any:
    regions: list[tuple[str, str]] = []

    def clients(service: str, region: str) -> Client:
        regions.append((service, region))
        assert (service, region) == (arn.split(":")[2], arn.split(":")[3])
        return client

    return make_target(arn, "orders", clients)


def read_busy(made: Any) -> tuple[list[int], str]:
    """The numbers of the messages that a target could not take now, and the reason."""
    with pytest.raises(TargetBusy) as busy:
        made.send(MESSAGES)
    return list(busy.value.numbers), str(busy.value)


def read_refused(made: Any) -> tuple[list[int], str]:
    """The numbers of the messages that a target refused for themselves, and the reason."""
    with pytest.raises(ChangesRefused) as refused:
        made.send(MESSAGES)
    return list(refused.value.numbers), str(refused.value)


def test_a_function_gets_all_changes_in_one_call_that_is_waited_for() -> None:
    client = Client(invoke={"Payload": io.BytesIO(b"null")})
    target(FUNCTION, client).send(MESSAGES)
    ((operation, parameters),) = client.sent
    assert (operation, parameters["FunctionName"]) == ("invoke", FUNCTION)
    assert "InvocationType" not in parameters
    assert json.loads(parameters["Payload"]) == {
        "source": "tidetable",
        "stream": "orders",
        "changes": [{"id": "a"}, {"id": "b"}, {"id": "c"}],
    }


def test_a_function_that_fails_took_nothing() -> None:
    failure = {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorMessage":"no table"}')}
    assert read_refused(target(FUNCTION, Client(invoke=failure))) == ([0, 1, 2], '{"errorMessage":"no table"}')


def test_of_a_functions_long_failure_the_beginning_is_the_reason() -> None:
    failure = {"FunctionError": "Unhandled", "Payload": io.BytesIO(b"x" * 299 + b"yz")}
    assert read_refused(target(FUNCTION, Client(invoke=failure))) == ([0, 1, 2], "x" * 299 + "y")


def test_a_queue_says_which_messages_it_took() -> None:
    failed = {"Id": "1", "SenderFault": False, "Code": "InternalError", "Message": "Try again."}
    taken = {"Successful": [{"Id": "0"}, {"Id": "2"}], "Failed": [failed]}
    client = Client(get_queue_url={"QueueUrl": "https://queue"}, send_message_batch=taken)
    queue = target(QUEUE, client)
    reason = "the target did not take 1 of its messages: InternalError: Try again."
    assert read_busy(queue) == ([1], reason)
    assert read_busy(queue) == ([1], reason)
    assert client.sent[0] == ("get_queue_url", {"QueueName": "changes", "QueueOwnerAWSAccountId": "123456789012"})
    assert [operation for operation, _ in client.sent] == ["get_queue_url", "send_message_batch", "send_message_batch"]
    assert client.sent[1][1] == {
        "QueueUrl": "https://queue",
        "Entries": [{"Id": str(n), "MessageBody": json.dumps({"id": id})} for n, id in enumerate("abc")],
    }


def test_a_message_that_a_queue_says_nothing_of_was_not_taken() -> None:
    client = Client(get_queue_url={"QueueUrl": "u"}, send_message_batch={"Successful": [{"Id": "1"}]})
    assert read_busy(target(QUEUE, client)) == ([0, 2], "the target did not take 2 of its messages: no answer")


def test_a_fifo_queue_keeps_the_changes_of_an_event_in_order_and_drops_a_change_that_comes_again() -> None:
    client = Client(
        get_queue_url={"QueueUrl": "u"}, send_message_batch={"Successful": [{"Id": str(n)} for n in range(3)]}
    )
    again = FeedMessage(MESSAGES[0].identity, b'{"id":"a","more":1}')
    target(QUEUE + ".fifo", client).send([MESSAGES[0], again, MESSAGES[1]])
    first, second, other = client.sent[1][1]["Entries"]
    assert first["MessageGroupId"] == second["MessageGroupId"] != other["MessageGroupId"]
    assert first["MessageDeduplicationId"] != second["MessageDeduplicationId"]
    assert all(len(entry["MessageGroupId"]) <= 128 for entry in (first, second, other))


def test_a_bus_gets_an_entry_for_each_change() -> None:
    client = Client(put_events={"Entries": [{"EventId": "1"}, FAILED, {"EventId": "2"}]})
    assert read_busy(target(BUS, client)) == ([1], "the target did not take 1 of its messages: InternalFailure")
    assert client.sent[0][1]["Entries"][0] == {
        "Source": "tidetable",
        "DetailType": "Event changed",
        "Detail": '{"id": "a"}',
        "EventBusName": BUS,
        "Resources": ["orders"],
    }


def test_kinesis_gets_the_changes_of_an_event_in_one_shard() -> None:
    client = Client(put_records={"Records": [FAILED, {"SequenceNumber": "1"}, FAILED]})
    for _ in range(2):
        assert read_busy(target(KINESIS, client))[0] == [0, 2]
    assert client.sent[0][1] == client.sent[1][1]
    assert client.sent[0][1]["StreamARN"] == KINESIS
    keys = [record["PartitionKey"] for record in client.sent[0][1]["Records"]]
    assert len(set(keys)) == 3
    assert all(len(key) <= 256 for key in keys)


def test_firehose_gets_lines() -> None:
    client = Client(put_record_batch={"RequestResponses": [{"RecordId": "1"}, {"RecordId": "2"}, FAILED]})
    assert read_busy(target(FIREHOSE, client))[0] == [2]
    assert client.sent[0][1] == {
        "DeliveryStreamName": "orders",
        "Records": [{"Data": b'{"id": "%s"}\n' % id} for id in (b"a", b"b", b"c")],
    }


@pytest.mark.parametrize(
    ("arn", "messages", "one", "together"),
    [
        # AWS: PutEvents, 10 entries of 1 MB together; in the Regions of China less than 256 KB.
        (BUS, 10, 1_000_000, 1_000_000),
        (BUS.replace("arn:aws:", "arn:aws-cn:"), 10, 256_000, 256_000),
        # AWS: SendMessageBatch, 10 messages of 1 MiB together.
        (QUEUE, 10, 1_048_576, 1_048_576),
        # AWS: PutRecords, 500 records of 1 MiB each and 5 MiB together.
        (KINESIS, 500, 1_048_576, 5_242_880),
        # AWS: PutRecordBatch, 500 records of 1,000 KiB each and 4 MiB together.
        (FIREHOSE, 500, 1_024_000, 4_194_304),
        # AWS: a call that is waited for takes 6 MB.
        (FUNCTION, 10_000, 6_291_456, 6_291_456),
    ],
)
def test_no_request_is_larger_than_its_service_takes(arn: str, messages: int, one: int, together: int) -> None:
    """A tenth is kept back for names, keys and what surrounds the bodies."""
    made = target(arn, Client())
    assert made.most_messages <= messages
    assert made.most_bytes <= 0.9 * one
    assert made.most_together <= 0.9 * together
    # What fails becomes a dead letter, and a message of that queue has 1 MiB at the most.
    assert made.most_bytes <= 0.9 * 1_048_576


def test_dead_letters_say_what_did_not_take_them_and_why() -> None:
    client = Client(send_message={})
    FeedDeadLetters(lambda: client, "dead").bury("orders", QUEUE, "gone\nfor\x00ever", [b'{"id":1.50}', b'{"id":"b"}'])
    ((_, parameters),) = client.sent
    assert parameters == {
        "QueueUrl": "dead",
        "MessageBody": '{"id":1.50}\n{"id":"b"}',
        "MessageAttributes": {
            "feed": {"DataType": "String", "StringValue": "orders"},
            "target": {"DataType": "String", "StringValue": QUEUE},
            "reason": {"DataType": "String", "StringValue": "gone for ever"},
        },
    }


def test_the_reason_of_a_dead_letter_is_cut_at_500_characters() -> None:
    client = Client(send_message={})
    FeedDeadLetters(lambda: client, "dead").bury("orders", QUEUE, "x" * 500 + "y", [b"{}"])
    assert client.sent[0][1]["MessageAttributes"]["reason"]["StringValue"] == "x" * 500


def test_a_record_that_could_not_be_read_has_no_target() -> None:
    """SQS refuses an attribute without a value."""
    client = Client(send_message={})
    FeedDeadLetters(lambda: client, "dead").bury("orders", "", "damaged", [b"{}"])
    assert set(client.sent[0][1]["MessageAttributes"]) == {"feed", "reason"}


def test_dead_letters_are_as_many_as_it_takes() -> None:
    client = Client(send_message={})
    bodies = [b'{"x":"%s"}' % (b"x" * 400_000)] * 5
    FeedDeadLetters(lambda: client, "dead").bury("orders", QUEUE, "gone", bodies)
    sent = [parameters["MessageBody"] for _, parameters in client.sent]
    assert [len(body.splitlines()) for body in sent] == [2, 2, 1]
    assert all(len(body.encode()) <= 1_048_576 for body in sent)


@pytest.mark.parametrize(("last", "messages"), [(449_999, 1), (450_000, 2)])
def test_a_message_of_dead_letters_has_900_kb_with_its_ends_of_lines(last: int, messages: int) -> None:
    client = Client(send_message={})
    bodies = [b"x" * 449_999, b"x" * last]
    FeedDeadLetters(lambda: client, "dead").bury("orders", QUEUE, "gone", bodies)
    assert len(client.sent) == messages


def test_the_largest_change_is_a_message_of_its_own() -> None:
    """No message is empty, even if the first change alone fills a message."""
    client = Client(send_message={})
    FeedDeadLetters(lambda: client, "dead").bury("orders", QUEUE, "gone", [b"x" * 900_000, b"y"])
    assert [len(parameters["MessageBody"]) for _, parameters in client.sent] == [900_000, 1]


def test_requests_are_as_large_as_they_may_be() -> None:
    """Smaller requests would cost more calls. Kinesis and Firehose count keys and ends of lines, too."""
    limits = {arn: target(arn, Client()) for arn in (FUNCTION, QUEUE, BUS, KINESIS, FIREHOSE)}
    assert {arn: (made.most_bytes, made.most_messages, made.most_together) for arn, made in limits.items()} == {
        FUNCTION: (900_000, 1_000, 5_000_000),
        QUEUE: (900_000, 10, 900_000),
        BUS: (900_000, 10, 900_000),
        KINESIS: (900_000, 500, 4_000_000),
        FIREHOSE: (900_000, 500, 3_000_000),
    }


def test_of_a_queue_that_took_nothing_every_message_is_left() -> None:
    client = Client(get_queue_url={"QueueUrl": "u"}, send_message_batch={"Failed": [{"Id": "0"}]})
    assert read_busy(target(QUEUE, client))[0] == [0, 1, 2]


@pytest.mark.parametrize(
    ("entries", "refused"),
    [([REFUSED, {}, REFUSED], True), ([REFUSED, {}, FAILED], False), ([FAILED, {}, FAILED], False)],
)
def test_an_entry_is_refused_for_itself_if_its_code_says_so(entries: Any, refused: bool) -> None:
    """A throttled bus refuses any entry: a refusal beside it comes again with it."""
    made = target(BUS, Client(put_events={"Entries": entries}))
    assert (read_refused if refused else read_busy)(made)[0] == [0, 2]


@pytest.mark.parametrize(("faults", "refused"), [((True, True), True), ((True, False), False), ((False, False), False)])
def test_a_queue_says_if_the_message_is_at_fault(faults: tuple[bool, bool], refused: bool) -> None:
    failed = [{"Id": str(2 * n), "SenderFault": fault, "Code": "X"} for n, fault in enumerate(faults)]
    answer = {"Successful": [{"Id": "1"}], "Failed": failed}
    made = target(QUEUE, Client(get_queue_url={"QueueUrl": "u"}, send_message_batch=answer))
    assert (read_refused if refused else read_busy)(made)[0] == [0, 2]


@pytest.mark.parametrize("code", ["ValidationException", "InvalidArgumentException"])
def test_a_request_that_is_refused_for_its_content_is_refused_for_itself(code: str) -> None:
    client = Failing(code)
    for arn in (BUS, KINESIS, FIREHOSE, FUNCTION):
        assert read_refused(target(arn, client)) == ([0, 1, 2], f"{code}: no")


@pytest.mark.parametrize(
    "code",
    ["ThrottlingException", "ResourceNotFoundException", "AccessDeniedException", "KMSAccessDeniedException", "500"],
)
def test_every_other_refusal_of_a_request_may_pass_with_time(code: str) -> None:
    for arn in (BUS, KINESIS, FIREHOSE, FUNCTION):
        with pytest.raises(ClientError, match=code):
            target(arn, Failing(code)).send(MESSAGES)


def test_events_whose_names_join_to_the_same_text_are_different_events() -> None:
    client = Client(put_records={"Records": [{}, {}]})
    target(KINESIS, client).send([FeedMessage(("ab", "c", "d"), b"{}"), FeedMessage(("a", "bc", "d"), b"{}")])
    first, second = (record["PartitionKey"] for record in client.sent[0][1]["Records"])
    assert first != second
    assert len(first) == len(second) == 32
