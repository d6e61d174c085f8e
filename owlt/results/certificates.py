"""The certificates of a sweep's channels, kept beside the runs: certificates/KEY.json of the results directory.

The model of a certificate belongs to the measurement: `emulator.certification.certificate`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from owlt.emulator.certification.certificate import Certificate, Check
from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.results.files import CERTIFICATES, MACHINES
from owlt.results.plain_files import make_directory, read_json, write_whole
from owlt.results.record import Signature, signature
from owlt.results.upgrades import CERTIFICATE_STEPS, VERSION_KEY, NewerVersion, current_version, upgraded

__all__ = [
    "Certificate",
    "Certified",
    "Check",
    "certificate_or_problem",
    "certified",
    "of_machine",
    "read_certificate",
    "write_certificate",
]

SCHEMA_VERSION = current_version(CERTIFICATE_STEPS)
DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError)
"""The exceptions when a damaged certificate is read."""


class Certified(BaseModel):
    """The verdict on a channel, and the reasons why a run that uses it is suspect, if any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: Literal["ok", "failed", "incomplete"]
    suspicion: list[str] = []


def write_certificate(certificate: Mapping[str, Any], key: str, directory: Path) -> Path:
    """Write the certificate of a channel, as the emulator's interface has it, into a directory of certificates."""
    make_directory(directory)
    values = {VERSION_KEY: SCHEMA_VERSION, **certificate}
    return write_whole(directory / f"{key}.json", json.dumps(values, indent=2) + "\n")


def read_certificate(results: Path, key: str) -> Certificate | None:
    """The certificate of a channel in a results directory; None if there is none or it is damaged.

    Raises ResultsConflict if a newer version of owlt wrote it.
    """
    path = _path(results, key)
    try:
        return _read(path)
    except NewerVersion as newer:
        raise ResultsConflict(
            Mistake(
                f"a newer version of owlt wrote it ({newer})",
                fix="use that version, or move the results directory away",
                where=Place(str(path)),
            )
        ) from newer
    except DAMAGE:
        return None


def certificate_or_problem(results: Path, key: str) -> tuple[Certificate | None, str]:
    """The certificate of a channel in a results directory; or None, and the problem of its file."""
    path = _path(results, key)
    return _certificate_at(path, signature(path))


@lru_cache(maxsize=1_000)
def _certificate_at(path: Path, _written: Signature | None) -> tuple[Certificate | None, str]:
    """A certificate that many runs need, read once while the file does not change."""
    try:
        return _read(path), ""
    except (FileNotFoundError, NotADirectoryError):
        state = "missing"
    except (NewerVersion, *DAMAGE):
        state = "damaged"
    return None, f"the certificate {CERTIFICATES}/{path.name} is {state}; 'owlt run' measures the channel again"


def _path(results: Path, key: str) -> Path:
    return results / CERTIFICATES / f"{key}.json"


def _read(path: Path) -> Certificate:
    values = dict(upgraded(read_json(path, may_be_infinite=True), CERTIFICATE_STEPS))
    values.pop(VERSION_KEY)
    return Certificate.from_wire(values)


def of_machine(results: Path, machine: str) -> Path:
    """The directory that holds the certificates of a machine of `owlt run --dask`; "": those of the results."""
    return results / MACHINES / machine if machine else results


def certified(results: Path, keys: set[str]) -> dict[str, Certified]:
    """The verdicts of the certificates that exist, by the keys of their channels."""
    certificates = {key: read_certificate(results, key) for key in keys}
    return {
        key: Certified(verdict=certificate.verdict, suspicion=_suspicion(certificate))
        for key, certificate in certificates.items()
        if certificate is not None
    }


def _suspicion(certificate: Certificate) -> list[str]:
    """The failed checks; or that nothing could be measured."""
    if any(check.verdict != "not measured" for check in certificate.checks):
        return certificate.suspicion()
    reasons = dict.fromkeys(check.reason for check in certificate.checks)
    return [f"nothing of it could be measured: {'; '.join(reasons)}"]
