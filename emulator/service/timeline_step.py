"""One step of a timeline: the links that it changes, each with a seed of its own, and the outages that it begins."""

import hashlib
from collections.abc import Mapping

from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.text import LARGEST_SEED
from owlt.emulator.service.player import Moment


def seeded_links(moment: Moment, before: Mapping[str, LinkSpec]) -> dict[str, LinkSpec]:
    """The links that a step changes, with new seeds, so that none depends on what passed before it."""
    changed = {name: link for name, link in moment.links.items() if link != before[name]}
    return {name: seeded_for_step(link, moment.number) for name, link in changed.items()}


def outage_ends(moment: Moment, links: Mapping[str, LinkSpec], started_ns: int) -> dict[str, int]:
    """When the outages of links that hold packets end, on the clock on which the timeline began at `started_ns`."""
    return {
        name: started_ns + end_ns
        for name, end_ns in moment.down_until_ns.items()
        if end_ns is not None and holds_packets(links[name])
    }


def holds_packets(link: LinkSpec) -> bool:
    """Whether a link is down and holds its packets until it is up."""
    return not link.up and link.while_down == "hold"


def seeded_for_step(link: LinkSpec, step: int) -> LinkSpec:
    """The link with a new seed for this step; a link with a pattern keeps its seed, and so its place in the pattern."""
    if link.seed is None or link.pattern is not None:
        return link
    digest = hashlib.sha256(f"{link.seed}/{step}".encode()).digest()
    return link.model_copy(update={"seed": int.from_bytes(digest[:8]) % (LARGEST_SEED + 1)})
