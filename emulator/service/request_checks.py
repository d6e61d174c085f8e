"""Checks of a client's requests: a change, a channel that this kernel supports, the options of a certificate.

Carrying the request out belongs to `emulator`.
"""

from collections.abc import Mapping
from typing import Any

from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.faults import InvalidChannel, NotCapable
from owlt.emulator.kernel.capabilities import missing_capabilities
from owlt.inputs.mistake import Mistake


def check_change(direction: object, changes: object) -> None:
    """Raise InvalidChannel unless these can be the parameters of `change`."""
    problem = f"got {direction!r:.50}, {changes!r:.50}"
    if direction not in (*DIRECTIONS, "both", "each") or not isinstance(changes, Mapping):
        raise InvalidChannel(Mistake.of("change", problem, "forward, reverse, both or each, and fields"))
    are_of_links = set(changes) <= set(DIRECTIONS) and all(isinstance(each, Mapping) for each in changes.values())
    if direction == "each" and not are_of_links:
        raise InvalidChannel(Mistake.of("change", problem, "the fields of forward, of reverse, or of each of them"))


def changed_channel(links: Mapping[str, LinkSpec], direction: str, changes: Mapping[str, Any]) -> ChannelSpec:
    """The channel of these links with the changes of a `change`. Raises InvalidChannel."""
    of_links = {"both": dict.fromkeys(DIRECTIONS, changes), "each": changes}.get(direction, {direction: changes})
    changed = ChannelSpec.from_wire(
        {name: {**link.to_wire(), **of_links.get(name, {})} for name, link in links.items()}
    )
    changed.refuse_to_begin_held()
    return changed


def require_capabilities(channel: ChannelSpec, capabilities: dict[str, Any]) -> None:
    """Raise NotCapable if a kernel with these capabilities cannot make the channel."""
    if missing := missing_capabilities(channel, capabilities):
        raise NotCapable(Mistake(f"this kernel does not support the channel: {'; '.join(missing)}"))


def checked_certify_options(options: object) -> dict[str, Any]:
    """The options of `certify` as numbers within their limits, which bound its memory. Raises InvalidChannel."""
    if not isinstance(options, Mapping) or not set(options) <= set(_CERTIFY_LIMITS) | {"packets"}:
        expected = f"only {', '.join([*_CERTIFY_LIMITS, 'packets'])}"
        raise InvalidChannel(Mistake.of("certify", f"got the options {options!r:.100}", expected))
    numbers = {
        name: _within(name, options[name], *limits) for name, limits in _CERTIFY_LIMITS.items() if name in options
    }
    if "packets" in options:
        from owlt.emulator.certification.sample_sizes import MOST_PACKETS  # numpy, which is slow to load

        numbers["packets"] = _within("packets", options["packets"], int, 1, MOST_PACKETS)
    return numbers


_CERTIFY_LIMITS: dict[str, tuple[type, float, float]] = {
    "alpha": (float, 1e-12, 0.99),
    "budget_s": (float, 0.001, 7 * 24 * 3600),
    "tolerance_ns": (int, 1, 2 * 10**9),
}


def _within(name: str, value: object, kind: type, least: float, most: float) -> Any:
    """A number within limits; a whole number may be sent as a double. Raises InvalidChannel."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most or kind(value) != value:  # type: ignore[operator]
        noun = "a whole number" if kind is int else "a number"
        raise InvalidChannel(
            Mistake.of(
                f"certify: {name}",
                f"got {value!r:.50}",
                f"{noun} from {least:,g} to {most if most < 1 else int(most):,}",
            )
        )
    return kind(value)
