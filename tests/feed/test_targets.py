"""The targets of a feed: what each service is sent, what it takes at once, and what it says of each message."""

import io
import json
from typing import Any

import pytest

from aws.feed_targets import FeedDeadLetters, make_target
from tidetable.feed.deliver import Message

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:changes"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:upsert"
BUS = "arn:aws:events:eu-central-1:123456789012:event-bus/orders"
KINESIS = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
FIREHOSE = "arn:aws:firehose:eu-central-1:123456789012:deliverystream/orders"
MESSAGES = [Message(("s", "2026-03-01", id), json.dumps({"id": id}).encode()) for id in "abc"]
FAILED = {"ErrorCode": "InternalFailure"}


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


def target(arn: str, client: Client) -> Any:
    regions: list[tuple[str, str]] = []

    def clients(service: str, region: str) -> Client:
        regions.append((service, region))
        assert (service, region) == (arn.split(":")[2], arn.split(":")[3])
        return client

    return make_target(arn, "orders", clients)


def test_a_function_gets_all_changes_in_one_call_that_is_waited_for() -> None:
    client = Client(invoke={"Payload": io.BytesIO(b"null")})
    assert target(FUNCTION, client).send(MESSAGES) == ()
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
    with pytest.raises(RuntimeError, match="no table"):
        target(FUNCTION, Client(invoke=failure)).send(MESSAGES)


def test_of_a_functions_long_failure_the_beginning_is_the_reason() -> None:
    failure = {"FunctionError": "Unhandled", "Payload": io.BytesIO(b"x" * 299 + b"yz")}
    with pytest.raises(RuntimeError) as failed:
        target(FUNCTION, Client(invoke=failure)).send(MESSAGES)
    assert str(failed.value) == "x" * 299 + "y"


def test_a_queue_says_which_messages_it_took() -> None:
    taken = {"Successful": [{"Id": "0"}, {"Id": "2"}], "Failed": [{"Id": "1"}]}
    client = Client(get_queue_url={"QueueUrl": "https://queue"}, send_message_batch=taken)
    queue = target(QUEUE, client)
    assert list(queue.send(MESSAGES)) == [1]
    assert list(queue.send(MESSAGES)) == [1]
    assert client.sent[0] == ("get_queue_url", {"QueueName": "changes", "QueueOwnerAWSAccountId": "123456789012"})
    assert [operation for operation, _ in client.sent] == ["get_queue_url", "send_message_batch", "send_message_batch"]
    assert client.sent[1][1] == {
        "QueueUrl": "https://queue",
        "Entries": [{"Id": str(n), "MessageBody": json.dumps({"id": id})} for n, id in enumerate("abc")],
    }


def test_a_message_that_a_queue_says_nothing_of_was_not_taken() -> None:
    client = Client(get_queue_url={"QueueUrl": "u"}, send_message_batch={"Successful": [{"Id": "1"}]})
    assert list(target(QUEUE, client).send(MESSAGES)) == [0, 2]


def test_a_fifo_queue_keeps_the_changes_of_an_event_in_order_and_drops_a_change_that_comes_again() -> None:
    client = Client(get_queue_url={"QueueUrl": "u"}, send_message_batch={"Successful": []})
    again = Message(MESSAGES[0].identity, b'{"id":"a","more":1}')
    target(QUEUE + ".fifo", client).send([MESSAGES[0], again, MESSAGES[1]])
    first, second, other = client.sent[1][1]["Entries"]
    assert first["MessageGroupId"] == second["MessageGroupId"] != other["MessageGroupId"]
    assert first["MessageDeduplicationId"] != second["MessageDeduplicationId"]
    assert all(len(entry["MessageGroupId"]) <= 128 for entry in (first, second, other))


def test_a_bus_gets_an_entry_for_each_change() -> None:
    client = Client(put_events={"Entries": [{"EventId": "1"}, FAILED, {"EventId": "2"}]})
    assert list(target(BUS, client).send(MESSAGES)) == [1]
    assert client.sent[0][1]["Entries"][0] == {
        "Source": "tidetable",
        "DetailType": "Event changed",
        "Detail": '{"id": "a"}',
        "EventBusName": BUS,
        "Resources": ["orders"],
    }


def test_kinesis_gets_the_changes_of_an_event_in_one_shard() -> None:
    client = Client(put_records={"Records": [FAILED, {"SequenceNumber": "1"}, FAILED]})
    assert list(target(KINESIS, client).send(MESSAGES)) == [0, 2]
    target(KINESIS, client).send(MESSAGES)
    assert client.sent[0][1] == client.sent[1][1]
    assert client.sent[0][1]["StreamARN"] == KINESIS
    keys = [record["PartitionKey"] for record in client.sent[0][1]["Records"]]
    assert len(set(keys)) == 3
    assert all(len(key) <= 256 for key in keys)


def test_firehose_gets_lines() -> None:
    client = Client(put_record_batch={"RequestResponses": [{"RecordId": "1"}, {"RecordId": "2"}, FAILED]})
    assert list(target(FIREHOSE, client).send(MESSAGES)) == [2]
    assert client.sent[0][1] == {
        "DeliveryStreamName": "orders",
        "Records": [{"Data": b'{"id": "%s"}\n' % id} for id in (b"a", b"b", b"c")],
    }


@pytest.mark.parametrize(
    ("arn", "messages", "one", "together"),
    [
        # AWS: PutEvents, 10 entries of less than 256 KB together.
        (BUS, 10, 256_000, 256_000),
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
        BUS: (200_000, 10, 200_000),
        KINESIS: (900_000, 500, 4_000_000),
        FIREHOSE: (900_000, 500, 3_000_000),
    }


def test_of_a_queue_that_took_nothing_every_message_is_left() -> None:
    client = Client(get_queue_url={"QueueUrl": "u"}, send_message_batch={"Failed": [{"Id": "0"}]})
    assert list(target(QUEUE, client).send(MESSAGES)) == [0, 1, 2]


def test_events_whose_names_join_to_the_same_text_are_different_events() -> None:
    client = Client(put_records={"Records": [{}, {}]})
    target(KINESIS, client).send([Message(("ab", "c", "d"), b"{}"), Message(("a", "bc", "d"), b"{}")])
    first, second = (record["PartitionKey"] for record in client.sent[0][1]["Records"])
    assert first != second
    assert len(first) == len(second) == 32
