"""How an implementation is called where people read: its label. Files, tables and commands have its name.

A label is the title of the profile, without a remark in parentheses unless two implementations of the sweep would then
have the same one, and the values of the parameters that a sweep varies: "TCP BBR", "LTP, segment 500 B".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.placeholders import as_text
from owlt.inputs.axes import base_name
from owlt.reports.units import number_text, rate_text, size_text

CONGESTION_CONTROL = "congestion_control"
CONGESTION_CONTROLS = {
    "bic": "BIC",
    "cdg": "CDG",
    "dctcp": "DCTCP",
    "highspeed": "HighSpeed",
    "htcp": "H-TCP",
    "lp": "TCP-LP",
    "nv": "NV",
    "yeah": "YeAH",
}
"""The names of congestion controls that are not simply written in capitals."""
WORDS = ("hybla", "illinois", "reno", "scalable", "vegas", "veno", "westwood")
IN_LINUX = {"bbr": "BBR version 1 (tcp_bbr of Linux)"}
"""What a congestion control of Linux is, where its name leaves that open."""
_UNITS = {"bytes": size_text, "bps": rate_text}


def labels_of(profiles: Mapping[str, Implementation]) -> dict[str, str]:
    """The label of each implementation of a sweep, by name; no two are equal."""
    titles = {base_name(name): _title(name, profile) for name, profile in profiles.items()}
    short = {name: re.sub(r" \([^()]*\)$", "", title) for name, title in titles.items()}
    counts = Counter(short.values())
    bases = {name: short[name] if counts[short[name]] == 1 else titles[name] for name in titles}
    labels = {name: bases[base_name(name)] + _chosen(name, profile) for name, profile in profiles.items()}
    counts = Counter(labels.values())
    return {name: label if counts[label] == 1 else f"{label} [{name}]" for name, label in labels.items()}


def congestion_control_of(profile: Implementation) -> str:
    """Which version of a congestion control an implementation over Linux's TCP has; "" where that is not known."""
    chosen = as_text(profile.of("sender").parameters.get(CONGESTION_CONTROL, ""))
    return IN_LINUX.get(chosen, "") if profile.protocol == "TCP" else ""


def _title(name: str, profile: Implementation) -> str:
    """The title of the implementation that a variant belongs to: a variant's ends with its parameters."""
    varied = _varied(name)
    return profile.title.partition(f", {varied[0]} ")[0] if varied else profile.title


def _varied(name: str) -> list[str]:
    return [part.partition("=")[0] for part in name.split("+")[1:]]


def _chosen(name: str, profile: Implementation) -> str:
    """The values of the parameters that a sweep varies, and the directory of one that is not pooled with others."""
    values = {key: as_text(profile.parameters[key]) for key in _varied(name) if key in profile.parameters}
    control = values.pop(CONGESTION_CONTROL, None)
    others = [_value(key, text) for key, text in values.items()]
    of_directory = "".join(f" ({part[3:]})" for part in name.split("+")[1:] if part.startswith("in="))
    return ", ".join([f" {_congestion_control(control)}" if control else "", *others]) + of_directory


def _congestion_control(name: str) -> str:
    return CONGESTION_CONTROLS.get(name) or (name.capitalize() if name in WORDS else name.upper())


def _value(key: str, text: str) -> str:
    """A parameter and its value: "segment 500 B", "ack threshold 2"."""
    words = key.split("_")
    try:
        number = float(text)
    except ValueError:
        return f"{' '.join(words)} {text}"
    if words[-1] in _UNITS and len(words) > 1:
        return f"{' '.join(words[:-1])} {_UNITS[words[-1]](int(number))}"
    if words[-1] in ("s", "ms") and len(words) > 1:
        return f"{' '.join(words[:-1])} {number_text(number)} {words[-1]}"
    return f"{' '.join(words)} {number_text(number)}"
