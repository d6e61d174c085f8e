"""The certificates of a sweep's channels, kept beside the runs: certificates/KEY.json of the results directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from owlt.emulator.certification.certificate import Certificate
from owlt.inputs.mistake import Mistake, Place, ResultsConflict
from owlt.orchestrator.rigs.provenance import DIRECTORY_NAME as MACHINES
from owlt.results.files import CERTIFICATES
from owlt.results.plain_files import make_directory, read_json, write_whole
from owlt.results.upgrades import CERTIFICATE_STEPS, VERSION_KEY, NewerVersion, current_version, upgraded

SCHEMA_VERSION = current_version(CERTIFICATE_STEPS)


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
    path = results / CERTIFICATES / f"{key}.json"
    try:
        values = dict(upgraded(read_json(path, may_be_infinite=True), CERTIFICATE_STEPS))
        values.pop(VERSION_KEY)
        return Certificate.from_wire(values)
    except NewerVersion as newer:
        raise ResultsConflict(
            Mistake(
                f"a newer version of owlt wrote it ({newer})",
                fix="use that version, or move the results directory away",
                where=Place(str(path)),
            )
        ) from newer
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


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
