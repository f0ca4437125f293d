"""Build the objects of events that wait to be written: for the drain, and for the lifecycle, which watches over it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import settings
from aws import clients
from wiring import Pipeline

if TYPE_CHECKING:
    from tidetable import ports
    from tidetable.ingest.beat import Beats
    from tidetable.ingest.delivery import Drain
    from tidetable.ingest.standstill import Watch


class DrainPipeline(Pipeline):
    """A pipeline with the ports and the use cases of events that wait."""

    @cached_property
    def dead_letters(self) -> ports.DeadLetters:
        from aws.overflow import SqsDeadLetters

        return SqsDeadLetters(clients.find_sqs_client, settings.read_settings().dead_letter_queue_url)

    @cached_property
    def drain(self) -> Drain:
        from tidetable.ingest.circuit import Circuit
        from tidetable.ingest.delivery import Drain
        from tidetable.ingest.marks import Marks
        from tidetable.ingest.pace import Pace

        pace, circuit = Pace.of_config(self.config, self.clock, self.config.work.consumers), Circuit(self.clock)
        # Without rollups, too: the drain marks periods that are over.
        marks = self.marks or Marks(self.rollups)
        return self.build(
            Drain, catalog=self.catalog_reader, pace=pace, circuit=circuit, saved=self.values, marks=marks
        )

    @cached_property
    def beats(self) -> Beats:
        from aws.dynamodb.beats import LeanBeats

        return LeanBeats(self.dynamodb, settings.read_settings().rollups_table)

    @cached_property
    def watch(self) -> Watch:
        """The watch over the drain, for the lifecycle."""
        from aws.waiting import SqsMessages
        from tidetable.ingest.standstill import Watch

        known = settings.read_settings()
        waiting, letters = (
            SqsMessages(clients.find_sqs_client, url) for url in (known.overflow_queue_url, known.dead_letter_queue_url)
        )
        return self.build(Watch, waiting=waiting, letters=letters)
