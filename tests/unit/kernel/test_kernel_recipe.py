"""What a configuration must have taken, and which patches are tried in which order."""

from __future__ import annotations

from pathlib import Path

from owlt.orchestrator.kernel.build import OPTIONAL_SECTION, options_not_taken, patch_choices, timer_hz
from owlt.orchestrator.kernel.kernel import FRAGMENT as RECIPE_FRAGMENT
from owlt.orchestrator.kernel.kernel import PATCHES

FRAGMENT = f"""\
# a comment
CONFIG_A=y
CONFIG_NUMBER=100
CONFIG_OFF=n

{OPTIONAL_SECTION}
CONFIG_SOME=y
"""
WHOLE = "CONFIG_A=y\nCONFIG_NUMBER=100\n# CONFIG_OFF is not set\n"


def test_a_configuration_that_took_everything_lacks_nothing() -> None:
    assert options_not_taken(FRAGMENT, WHOLE) == []


def test_an_option_that_was_not_taken_is_named() -> None:
    config = WHOLE.replace("CONFIG_A=y", "# CONFIG_A is not set")

    assert options_not_taken(FRAGMENT, config) == ["CONFIG_A=y"]


def test_an_option_with_another_value_was_not_taken() -> None:
    assert options_not_taken(FRAGMENT, WHOLE.replace("100", "250")) == ["CONFIG_NUMBER=100"]


def test_an_option_that_should_be_off_and_is_on_is_named() -> None:
    assert options_not_taken(FRAGMENT, WHOLE + "CONFIG_OFF=y\n") == ["CONFIG_OFF=n"]


def test_an_option_of_which_the_asked_one_is_the_beginning_does_not_count() -> None:
    assert options_not_taken("CONFIG_NET=y\n", "CONFIG_NET_SCHED=y\n") == ["CONFIG_NET=y"]


def test_our_fragment_has_an_optional_section() -> None:
    assert RECIPE_FRAGMENT.read_text().count(OPTIONAL_SECTION) == 1


def test_patches_of_one_purpose_are_tried_newest_first() -> None:
    paths = [Path(name) for name in ("fixed-random.patch", "spin-6.1.patch", "spin-6.12.patch", "spin-7.3.patch")]

    assert [[path.name for path in choices] for choices in patch_choices(paths)] == [
        ["fixed-random.patch"],
        ["spin-7.3.patch", "spin-6.12.patch", "spin-6.1.patch"],
    ]


def test_every_patch_says_its_licence() -> None:
    assert all(path.read_text().startswith("SPDX-License-Identifier: GPL-2.0\n") for path in PATCHES)


def test_the_timer_frequency_is_read_from_the_configuration() -> None:
    assert timer_hz("CONFIG_HZ_100=y\nCONFIG_HZ=250\n") == 250
