"""The results directories that the unit tests of the reports make."""

from tests.unit.reports.conftest import reported

__all__ = ["reported"]
