"""Numbers in templates: reckoned with as numbers, printed as the text that they are."""

import pytest

from owlt.agents.contract.placeholders import Figure
from owlt.agents.contract.side import TEMPLATES

VALUES = {"rtt_s": Figure("0.5"), "port": Figure("5001"), "rate_bps": Figure("0"), "few": Figure("3")}


def shown(template: str) -> str:
    """What a template becomes."""
    return TEMPLATES.from_string(template).render(VALUES)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ rtt_s }}", "0.5"),
        ("{{ rtt_s * 2 }}", "1.0"),
        ("{{ 2 * rtt_s }}", "1.0"),
        ("{{ rtt_s + few }}", "3.5"),
        ("{{ port + 1 }}", "5002"),
        ("{{ 1 + port }}", "5002"),
        ("{{ port // 1000 }}", "5"),
        ("{{ 10 - few }}", "7"),
        ("{{ 7 % few }}", "1"),
        ("{{ few ** 2 }}", "9"),
        ("{{ -rtt_s }}", "-0.5"),
        ("{{ rtt_s | abs }}", "0.5"),
        ("{{ (few / 2) | round(1) }}", "1.5"),
        ("{{ rtt_s | round(0, 'ceil') | int }}", "1"),
        ("{{ rtt_s | float * 2 }}", "1.0"),
        ("{{ port | int + 1 }}", "5002"),
        ("{{ rtt_s | int }}", "0"),
        ("{{ [few, port, rtt_s] | max }}", "5001"),
        ("{{ [0.05, rtt_s] | min }}", "0.05"),
        ("{{ [few, port] | sum }}", "5004"),
        ("{% for n in range(few) %}{{ n }}{% endfor %}", "012"),
        ("{{ '%.3f' | format(rtt_s) }}", "0.500"),
        ("{{ '%s %d' % (few, port) }}", "3 5001"),
    ],
)
def test_a_number_is_reckoned_with(template: str, text: str) -> None:
    assert shown(template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ port + 'x' }}", "5001x"),
        ("{{ 'x' + port }}", "x5001"),
        ("{{ 'port ' ~ port }}", "port 5001"),
        ("{{ [few, port] | join(' ') }}", "3 5001"),
        ("{{ rtt_s | replace('.', ',') }}", "0,5"),
        ("{{ port | length }}", "4"),
    ],
)
def test_beside_text_a_number_is_text(template: str, text: str) -> None:
    assert shown(template) == text


@pytest.mark.parametrize(
    "condition",
    [
        "rate_bps == '0'",
        "rate_bps == 0",
        "not rate_bps",
        "rtt_s",
        "rtt_s != '0'",
        "rtt_s > 0.4",
        "0.4 < rtt_s",
        "few < port",
        "few in [1, 2, 3]",
        "rtt_s != none",
    ],
)
def test_a_number_is_compared_by_its_value_and_with_text_by_its_text(condition: str) -> None:
    assert shown(f"{{{{ 'so' if {condition} else 'not so' }}}}") == "so"


def test_what_is_not_complete_counts_nothing() -> None:
    with pytest.raises(TypeError, match=r"0\.5 is not a whole number"):
        shown("{{ range(rtt_s) }}")


def test_a_number_is_a_key_as_its_text_is() -> None:
    assert {"5001": "here"}[Figure("5001")] == "here"
