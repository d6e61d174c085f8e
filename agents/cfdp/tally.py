"""Plain facts about one side of a CFDP transfer: PDUs, and file data that went again."""

from owlt.agents.endpoint.counters import Tally


class PduTally(Tally):
    """Counts PDUs by kind (`FileData`, `Metadata`, `Eof`, `Ack`, `Nak`, `Finished`), damaged datagrams, and file data
    that went more than once: those of an `offset` that was seen before."""

    def __init__(self) -> None:
        super().__init__("data_again", "unreadable")
        self._offsets: set[int] = set()

    def sent(self, kind: str, now_s: float, offset: int | None = None) -> None:
        super().sent(kind, now_s)
        self._note(offset)

    def received(self, kind: str, now_s: float, offset: int | None = None) -> None:
        super().received(kind, now_s)
        self._note(offset)

    def _note(self, offset: int | None) -> None:
        if offset in self._offsets:
            self.count("data_again")
        elif offset is not None:
            self._offsets.add(offset)
