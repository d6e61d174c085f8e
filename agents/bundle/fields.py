"""Reading the fields of a bundle one after the other; every way in which they can be wrong is one exception."""

from owlt.agents.ltp import sdnv


class Malformed(Exception):
    """The bytes are not a bundle, or not one that this endpoint knows how to read."""


class Damaged(Malformed):
    """The bytes are a bundle whose own check says that they are not those that were sent."""


class Fields:
    """A place in some bytes, which moves on with each field that is read. Reading raises Malformed."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._place = 0

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self._place == len(self._octets)

    @property
    def place(self) -> int:
        """How many bytes have been read."""
        return self._place

    def number(self) -> int:
        """A self-delimiting numeric value (SDNV)."""
        try:
            value, self._place = sdnv.decode(self._octets, self._place)
        except sdnv.NoNumber as error:
            raise Malformed(str(error)) from error
        return value

    def octet(self) -> int:
        """One byte, as a number."""
        return self.octets(1)[0]

    def octets(self, count: int) -> bytes:
        """So many bytes."""
        end = self._place + count
        if end > len(self._octets):
            raise Malformed(f"{count} bytes wanted at byte {self._place} of {len(self._octets)}")
        taken = self._octets[self._place : end]
        self._place = end
        return taken

    def rest(self) -> bytes:
        """All that is left."""
        return self.octets(len(self._octets) - self._place)
