"""Saratoga, versions 1 and 0; read by the scapy layer saratoga_layer.py."""

from __future__ import annotations

from captures.protocols.reading import CUT, Packet, Reader, Said, Unreadable, several, span


class Saratoga(Reader):
    """Reads packets, one in a datagram."""

    LAYER, TITLE = "", "Saratoga"
    FIELDS = ()

    def read(self, packet: Packet) -> Said:
        """What a packet says."""
        from captures.protocols import saratoga_layer as layer

        kind = layer.Saratoga.dispatch_hook(packet.payload)
        if kind is layer.Saratoga:
            raise Unreadable(f"begins with {packet.payload[:1].hex() or 'nothing'}")
        try:
            seen = kind(packet.payload)
        except Exception as error:  # scapy raises whatever the octets provoke
            if packet.cut:
                carries = kind in (layer.SaratogaData, layer.Saratoga0Data)
                return Said(_name(kind.__name__), CUT, unplaced=carries)
            raise Unreadable(str(error)) from error
        if kind in (layer.SaratogaData, layer.Saratoga0Data):
            data_at = len(packet.payload) - len(seen.data)
            count = packet.datagram_bytes - data_at
            asks = ", asks" if seen.asks else ""
            return Said("data", span(seen.offset, count) + asks, seen.offset, count, unit=seen.session, data_at=data_at)
        if kind in (layer.SaratogaStatus, layer.Saratoga0HolesToFill):
            return _status(packet, seen)
        if kind in (layer.SaratogaMetadata, layer.Saratoga0Metadata):
            return Said("metadata", f"file of {seen.file_bytes} bytes")
        return Said(_name(kind.__name__), CUT if packet.cut else "")


def _status(packet: Packet, seen: object) -> Said:
    """All before `in_response_to` has come but the holes; of a list that does not end here, all before `progress`."""
    from captures.protocols import saratoga_layer as layer

    assert isinstance(seen, layer.SaratogaStatus | layer.Saratoga0HolesToFill)
    error = getattr(seen, "error", 0)
    if error:
        return Said("status", f"error: {layer.ERRORS.get(error, error)}")
    holes = several(len(seen.holes), "hole") + (", metadata missing" if seen.metadata_missing else "")
    if packet.cut:
        return Said("status", CUT, acknowledged_bytes=seen.progress, unit=seen.session)
    if seen.payload:
        raise Unreadable("half a hole at the end")
    missing = sum(max(end - start, 0) for start, end in seen.holes)
    whole_list = max(seen.in_response_to - missing, seen.progress)
    acknowledged = seen.progress if seen.partial else whole_list
    detail = f"{holes}, all before {seen.progress}"
    return Said("status", detail, acknowledged_bytes=acknowledged, unit=seen.session)


def _name(kind: str) -> str:
    """The message's name by its class."""
    word = kind.removeprefix("Saratoga").removeprefix("0").lower()
    return "status" if word == "holestofill" else word
