"""Reading a datagram field by field, in network byte order; every shortage is `Unreadable`."""

from owlt.agents.saratoga.packets import LONGEST_NAME_BYTES, Span, Unreadable, name_text


class Fields:
    """A place in a datagram that moves on with each field read."""

    def __init__(self, datagram: bytes, place: int = 0) -> None:
        self._datagram = datagram
        self._place = place

    def octets(self, count: int) -> bytes:
        """The next `count` octets."""
        begin, self._place = self._place, self._place + count
        if self._place > len(self._datagram):
            raise Unreadable(f"got {len(self._datagram)} bytes, expected {self._place} or more")
        return self._datagram[begin : self._place]

    def number(self, count: int) -> int:
        """An unsigned number of `count` octets."""
        return int.from_bytes(self.octets(count))

    def name(self) -> str:
        """Text up to a zero octet."""
        end = self._datagram.find(0, self._place)
        if end < 0 or end - self._place > LONGEST_NAME_BYTES:
            raise Unreadable(f"got a name without end, expected at most {LONGEST_NAME_BYTES} bytes and a zero")
        name = name_text(self._datagram[self._place : end])
        self._place = end + 1
        return name

    def rest(self) -> bytes:
        """All that is left."""
        begin, self._place = self._place, len(self._datagram)
        return self._datagram[begin:]

    def holes(self, offset_bytes: int) -> tuple[Span, ...]:
        """All that is left, as pairs of offsets."""
        left = len(self._datagram) - self._place
        if left % (2 * offset_bytes):
            raise Unreadable(f"got holes of {left} bytes, expected pairs of 2 x {offset_bytes}")
        holes = tuple((self.number(offset_bytes), self.number(offset_bytes)) for _ in range(left // (2 * offset_bytes)))
        if any(end <= start for start, end in holes):
            raise Unreadable("got a hole that ends before it begins")
        return holes
