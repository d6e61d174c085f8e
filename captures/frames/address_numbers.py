"""The IPv6 addresses of a capture, numbered, so that a column can name them."""

from __future__ import annotations

from ipaddress import IPv6Address

_MOST_ADDRESSES = 1 << 18
"""Of IPv6, that are kept of one capture."""


class AddressNumbers:
    """The IPv6 addresses of a capture, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._refused = 0

    def numbers(self, *addresses: str) -> list[int] | None:
        """Their indices; None if there are too many to keep these."""
        if len(self._numbers) + len(addresses) > _MOST_ADDRESSES and not all(
            map(self._numbers.__contains__, addresses)
        ):
            self._refused += 1
            return None
        return [self._numbers.setdefault(address, len(self._numbers)) for address in addresses]

    @property
    def known(self) -> tuple[IPv6Address, ...]:
        return tuple(map(IPv6Address, self._numbers))

    @property
    def damage(self) -> str:
        if not self._refused:
            return ""
        return (
            f"{self._refused} packets were not read, because the capture has more than {_MOST_ADDRESSES} IPv6 addresses"
        )
