"""Where programs that are not ours are found on a host: the names and places that a profile searches, in its order."""

from __future__ import annotations

import subprocess
from pathlib import Path

from agents.contract import Binary, Implementation, Role
from agents.placeholders import render
from orchestrator.findings import Ended
from orchestrator.host import Host
from orchestrator.record import Outcome

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where names are looked for, on every host."""

_FIND = 'for p; do f=$(command -v -- "$p") && [ -f "$f" ] && [ -x "$f" ] && { echo "$f"; exit; }; done; exit 1'


def find_here(binary: Binary, builds: str) -> str | None:
    """Where the program is on this machine; None when it is nowhere."""
    done = subprocess.run(_command(binary, builds), capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def why_not_here(binary: Binary, builds: str) -> str:
    """Where it was searched, and of a file that is there and cannot be executed, that."""
    places = render(binary.search, {"builds": builds})
    inert = next((place for place in places if Path(place).is_file()), None)
    return f"{inert} is no executable file" if inert else f"searched: {', '.join(places)}"


def find_programs(implementation: Implementation, role: Role, host: Host, builds: str) -> dict[str, str]:
    """The path of each of a build's programs on a host. Raises Ended with the next step for one that is not there."""
    found = {}
    for name, binary in implementation.binary.items():
        done = host.run(_command(binary, builds))
        if done.exit_status != 0:
            searched = ", ".join(render(binary.search, {"builds": builds}))
            raise Ended(Outcome.ABORTED, f"the {role} has no {name} (searched: {searched}); there: {binary.mend}")
        found[name] = done.stdout.decode().strip()
    return found


def _command(binary: Binary, builds: str) -> list[str]:
    return ["env", f"PATH={SEARCH_PATH}", "sh", "-c", _FIND, "sh", *render(binary.search, {"builds": builds})]
