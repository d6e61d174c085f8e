"""The one form of a mistake."""

import pickle

import pytest

from owlt.inputs.mistake import Invalid, Key, Mistake, Place, got, key_text, keys_below, unexpected

TITLE = Place("a.yaml", 3, ("title",))


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (Mistake("got 5", "text", "put quotes around it", TITLE), "a.yaml:3: title: got 5, expected text; put quotes "),
        (Mistake("got 5", "text", where=Place(key=("title",))), "title: got 5, expected text"),
        (Mistake("is missing", fix="add it", where=Place("a.yaml", 3)), "a.yaml:3: is missing; add it"),
        (Mistake("cannot be read", where=Place("a.yaml")), "a.yaml: cannot be read"),
        (Mistake("got 5"), "got 5"),
        (Mistake(expected="text"), "expected text"),
    ],
)
def test_a_mistake_says_where_what_is_wrong_what_was_expected_and_how_to_fix_it(mistake: Mistake, text: str) -> None:
    assert str(mistake).startswith(text)


@pytest.mark.parametrize(
    ("key", "text"),
    [(("sender", "command", 2), "sender.command[2]"), (("steps", 0, "at"), "steps[0].at"), ((), "")],
)
def test_a_key_is_written_with_dots_and_numbers_in_brackets(key: Key, text: str) -> None:
    assert key_text(key) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "got nothing"),
        (True, "got true"),
        ("fast", "got 'fast'"),
        ([1] * 100, f"got [{'1, ' * 19}1,…"),
        ("x" * 300, f"got '{'x' * 199}…"),
    ],
)
def test_a_value_is_shown_as_it_was_written_and_a_long_one_cut(value: object, text: str) -> None:
    assert got(value) == text


def test_the_text_of_an_error_has_a_line_for_each_mistake() -> None:
    assert str(Invalid(Mistake("got 5"), Mistake("got 6"))) == "got 5\ngot 6"


def test_the_keys_of_mistakes_grow_on_their_way_up() -> None:
    with pytest.raises(Invalid) as raised, keys_below("contacts", 1):
        raise unexpected("an end after the start")

    assert [mistake.where.key for mistake in raised.value.mistakes] == [("contacts", 1)]


def test_an_error_survives_the_way_between_processes() -> None:
    error = Invalid(Mistake("got 5", "text", where=TITLE))

    assert pickle.loads(pickle.dumps(error)).mistakes == error.mistakes
