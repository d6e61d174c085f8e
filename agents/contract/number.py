"""A number in templates: its text on a command line, and a number in arithmetic."""

import operator
from collections.abc import Callable
from typing import Any, SupportsIndex


class Figure(str):
    """The text of a number. Arithmetic and comparison with a number use its value; everything else uses its text.

    So `{{ rtt_s * 2 }}` is twice the round trip and not its digits twice, and `rate_bps != "0"` is still true of 5.
    """

    __slots__ = ()

    @property
    def value(self) -> int | float:
        """The number: whole where the text is."""
        text = str(self)
        return int(text) if text.removeprefix("-").isdecimal() else float(text)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __index__(self) -> int:
        value = self.value
        if isinstance(value, float):
            raise TypeError(f"{self} is not a whole number")
        return value

    def __round__(self, digits: SupportsIndex | None = None) -> int | float:
        return round(self.value, digits)

    def __format__(self, form: str) -> str:
        return format(self.value, form) if form else str(self)

    def __pos__(self) -> int | float:
        return self.value

    def __neg__(self) -> int | float:
        return -self.value

    def __abs__(self) -> int | float:
        return abs(self.value)

    def __hash__(self) -> int:
        return str.__hash__(self)

    def lower(self) -> "Figure":
        """Itself: Jinja2 takes this of every text before it looks for the largest."""
        return self


def _operator(name: str, turned: bool) -> Callable[[Figure, Any], Any]:
    """The operator `name` on numbers; with other text, on text."""
    of_numbers, of_text = getattr(operator, name), getattr(str, f"__{name}__", None)

    def method(self: Figure, other: Any) -> Any:
        if isinstance(other, str) and not isinstance(other, Figure):
            texts = (other, self) if turned else (self, other)
            return of_text(*texts) if of_text else NotImplemented
        number = other.value if isinstance(other, Figure) else other
        return of_numbers(*((number, self.value) if turned else (self.value, number)))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Figure, f"__{_name}__", _operator(_name, turned=False))
    setattr(Figure, f"__r{_name}__", _operator(_name, turned=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Figure, f"__{_name}__", _operator(_name, turned=False))
