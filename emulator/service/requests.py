"""Checks of what a client asks for: a change, a channel that this kernel can carry out, the options of a certificate.

Carrying the request out belongs to `emulator`.
"""

from collections.abc import Mapping
from typing import Any

from agents.inputs.mistake import Mistake
from emulator.channel.link import LinkSpec
from emulator.channel.spec import DIRECTIONS, ChannelSpec
from emulator.faults import InvalidChannel, NotCapable
from emulator.kernel.capabilities import missing_capabilities


def check_change(direction: object, changes: object) -> None:
    """Raise InvalidChannel unless these can be the parameters of `change`."""
    if direction not in (*DIRECTIONS, "both") or not isinstance(changes, Mapping):
        problem = f"got {direction!r:.50}, {changes!r:.50}"
        raise InvalidChannel(Mistake.of("change", problem, "forward, reverse or both, and fields"))


def changed_channel(links: Mapping[str, LinkSpec], direction: str, changes: Mapping[str, Any]) -> ChannelSpec:
    """The channel of these links with the changes of a `change`. Raises InvalidChannel."""
    changed = ChannelSpec.from_wire(
        {name: {**link.to_wire(), **(changes if direction in (name, "both") else {})} for name, link in links.items()}
    )
    changed.refuse_to_begin_held()
    return changed


def require_capabilities(channel: ChannelSpec, capabilities: dict[str, Any]) -> None:
    """Raise NotCapable if a kernel with these capabilities cannot make the channel."""
    if missing := missing_capabilities(channel, capabilities):
        raise NotCapable(Mistake(f"this kernel does not support the channel: {'; '.join(missing)}"))


def checked_certify_options(options: object) -> dict[str, Any]:
    """The options of `certify` as numbers. Raises InvalidChannel."""
    problem = f"got the options {options!r:.100}"
    kinds: dict[str, Any] = {"alpha": float, "budget_s": float, "packets": int, "tolerance_ns": int}
    if not isinstance(options, Mapping) or not set(options) <= set(kinds):
        raise InvalidChannel(Mistake.of("certify", problem, f"none but {', '.join(kinds)}"))
    try:
        numbers = {name: kinds[name](value) for name, value in options.items()}
    except (TypeError, ValueError, OverflowError):
        raise InvalidChannel(Mistake.of("certify", problem, "numbers")) from None
    if any(value <= 0 for value in numbers.values()) or numbers.get("alpha", 0.5) >= 1:
        raise InvalidChannel(Mistake.of("certify", problem, "numbers above 0, and alpha below 1"))
    return numbers
