"""A results directory of somebody else, with one hostile entry after the other, and all commands on each.

Run as a program, `DIRECTORY`, it makes the directories and performs everything in this one process, so that one tracer
sees it all; a line of JSON for each command and entry goes to standard output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from owlt.orchestrator.commands.cli import main as main_of_owlt
from owlt.orchestrator.commands.performing import results_of
from owlt.orchestrator.dashboard.app import Background, new_app
from owlt.orchestrator.dashboard.child_processes import PacketViews
from owlt.orchestrator.dashboard.index import Directories
from owlt.orchestrator.dashboard.protection import Token
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.printable import printable_lines
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.run.analysis import analyse_or_mark
from owlt.orchestrator.sweep.campaign import Start, perform_plan
from owlt.orchestrator.sweep.combining import combine
from owlt.orchestrator.sweep.merging import merge
from owlt.orchestrator.sweep.report import make_report
from owlt.results.recorded_runs import results_root
from tests.typer_commands import make_commands_once
from tests.unit.captures.making import SESSION
from tests.unit.orchestrator.dashboard.conftest import Client
from tests.unit.orchestrator.workers_in_memory import InMemoryWorkers
from tests.unit.reports.conftest import change_record, plan_of, sweep, write_captures, write_certificates, write_results

LIMIT_S = 60
"""Time after which a command counts as hanging, also on a busy machine."""
SWEEP = sweep(
    implementations="cfdp", file_size="1 MB", delay="25 ms", packet_error_rate=0, repetitions=2, certify=False
)
RUN = "cfdp_1MB_10Mbps_25ms_per0_r1"
SECRET = "SECRET of another directory"
UNEXAMINED, CONTROL = ", unexamined", "control"
ESCAPES = "\x1b]0;owned\x07\x1b[2Jred"

Change = Callable[[Path, Path], object]
"""Changes a results directory, given the directory of the victim."""


def linked(name: str, target: str = "") -> Change:
    """A link of this name to the victim, or to something in it."""

    def change(results: Path, victim: Path) -> None:
        _remove(results / name)
        (results / name).symlink_to(target if target.startswith("/") else victim / target)

    return change


def piped(name: str) -> Change:
    """A pipe of this name, which nobody writes to."""

    def change(results: Path, _victim: Path) -> None:
        _remove(results / name)
        os.mkfifo(results / name)

    return change


def bound(name: str) -> Change:
    """A socket of this name."""

    def change(results: Path, _victim: Path) -> None:
        _remove(results / name)
        with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(results):
            listener.bind(name)

    return change


def nested(name: str) -> Change:
    """A directory where a file is expected."""

    def change(results: Path, _victim: Path) -> None:
        _remove(results / name)
        (results / name / "below").mkdir(parents=True)

    return change


def written(name: str, content: bytes) -> Change:
    """A file of this content."""

    def change(results: Path, _victim: Path) -> None:
        _remove(results / name)
        (results / name).write_bytes(content)

    return change


def sparse(name: str) -> Change:
    """A sparse file: its own content, then a hole of 1 TB."""
    return lambda results, _victim: os.truncate(results / name, 10**12)


def further_name(name: str, of: str) -> Change:
    """A hard link to a file of the victim."""

    def change(results: Path, victim: Path) -> None:
        _remove(results / name)
        os.link(victim / of, results / name)

    return change


def valued(name: str, keys: str, value: Any) -> Change:
    """Another value in a JSON file; a number among the keys is an index in a list."""

    def change(results: Path, _victim: Path) -> None:
        document = at = json.loads((results / name).read_text())
        *above, last = [int(key) if key.isdecimal() else key for key in keys.split(".")]
        for key in above:
            at = at[key]
        at[last] = value
        (results / name).write_text(json.dumps(document))

    return change


def _remove(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


RECORD, SUMMARY = f"runs/{RUN}/record.json", f"runs/{RUN}/summary.json"
DEEP = b"[" * 200_000
CERTIFICATE = f"certificates/{next(iter(plan_of(SWEEP).channels))}.json"
FIRST = "batches.0.runs.0"
HOSTILE: dict[str, Change] = {
    **{
        f"{name} -> the victim": linked(name)
        for name in ("report", "certificates", "runs", f"runs/{RUN}", f"runs/{RUN}/analysis", "attempts", "machines")
    },
    "workers -> the victim": linked("workers"),
    "host-baselines/1 -> the victim": linked("host-baselines/1"),
    "attempts/RUN -> the victim": linked(f"attempts/{RUN}"),
    "report/figures -> the victim": linked("report/figures"),
    "runs/STRAY -> the victim": linked("runs/stray"),
    "a draft of the report -> the victim": linked(".report.draft-x"),
    **{
        f"{name} -> a file of the victim": linked(name, "secret")
        for name in (
            *("lock", "journal.jsonl", "metrics.prom", "sources.json", ".report.lock", ".plan.json.draft", "note.txt"),
            *(RECORD, SUMMARY, CERTIFICATE, f"runs/{RUN}/analysis-failed.txt", f"runs/{RUN}/sender.err"),
            *(f"runs/{RUN}/sender.pcap", f"runs/{RUN}/pairs.json", f"runs/{RUN}/protocol.json"),
            *(f"runs/{RUN}/.sender.pcap.partial", f"runs/{RUN}/tcp-sender.csv", "machines/m.json", "report/index.html"),
        )
    },
    "plan.json -> a plan of the victim": linked("plan.json", "plan.json"),
    "lock -> a file that is missing": linked("lock", "new"),
    f"{RECORD} -> /dev/zero": linked(RECORD, "/dev/zero"),
    f"runs/{RUN}/sender.out -> /etc/passwd": linked(f"runs/{RUN}/sender.out", "/etc/passwd"),
    "report -> /": linked("report", "/"),
    **{
        f"{name} is a pipe": piped(name)
        for name in (
            *("plan.json", RECORD, SUMMARY, CERTIFICATE, "lock", "journal.jsonl", "note.txt"),
            f"runs/{RUN}/sender.out",
        )
    },
    "sender.pcap is a pipe": piped(f"runs/{RUN}/sender.pcap"),
    "report is a pipe": piped("report"),
    "metrics.prom is a pipe": piped("metrics.prom"),
    "sender.pcap is a socket": bound(f"runs/{RUN}/sender.pcap"),
    "lock is a socket": bound("lock"),
    **{
        f"{name} is a directory": nested(name)
        for name in ("plan.json", RECORD, SUMMARY, "lock", "journal.jsonl", f"runs/{RUN}/sender.pcap", CERTIFICATE)
    },
    "runs is a file": written("runs", b""),
    "report is a file": written("report", b""),
    "certificates is a file": written("certificates", b""),
    **{f"{name} has a terabyte of holes": sparse(name) for name in ("plan.json", RECORD, f"runs/{RUN}/sender.pcap")},
    "lock is a further name of a file of the victim": further_name("lock", "secret"),
    "journal.jsonl is a further name of a file of the victim": further_name("journal.jsonl", "secret"),
    "record.json is a further name of a file of the victim": further_name(RECORD, "secret"),
    "plan.json is deeply nested": written("plan.json", DEEP),
    "record.json is deeply nested": written(RECORD, DEEP),
    "summary.json is deeply nested": written(SUMMARY, DEEP),
    "journal.jsonl is deeply nested": written("journal.jsonl", DEEP + b"\n"),
    "lock is deeply nested": written("lock", DEEP),
    "record.json is no text": written(RECORD, bytes(range(256)) * 100),
    "numbers of 5,000 digits": valued(SUMMARY, "str_sent", int("9" * 4000)),
    "a number that is none": valued(SUMMARY, "goodput_bps", float("nan")),
    "a number without end": valued(SUMMARY, "goodput_bps", float("inf")),
    "a huge number": valued(SUMMARY, "goodput_bps", 1e308),
    "times before the beginning": valued(RECORD, "started_at_ns", -(10**30)),
    "a reason of ten megabytes": valued(RECORD, "reason", "x" * 10**7),
    "escapes in a reason": valued(RECORD, "reason", ESCAPES),
    "escapes in a title": valued("plan.json", "sweep.title", ESCAPES),
    "escapes in a doubt": valued(RECORD, "suspect", [ESCAPES]),
    "a run named after the victim": valued("plan.json", f"{FIRST}.run_id", "../../victim"),
    "a run with an absolute name": valued("plan.json", f"{FIRST}.run_id", "/etc"),
    "a run without a name": valued("plan.json", f"{FIRST}.run_id", ""),
    "a run with escapes in its name": valued("plan.json", f"{FIRST}.run_id", ESCAPES),
    "a channel named after a file": valued("plan.json", f"{FIRST}.channel_key", "../../victim/secret"),
    "a record of another run": valued(RECORD, "run_id", "../../victim"),
    "a record of a machine elsewhere": valued(RECORD, "machine", "../../victim"),
    "a record of a channel elsewhere": valued(RECORD, "channel_key", "../../victim/secret"),
}


class Overdue(BaseException):
    """Raised in a command that hangs; nothing catches it."""


@contextlib.contextmanager
def deadline() -> Iterator[None]:
    """Raises Overdue if the context takes longer."""

    def end(_number: int, _frame: object) -> None:
        raise Overdue

    signal.signal(signal.SIGALRM, end)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)


def command(*words: str) -> Callable[[], str]:
    """`owlt` with these words."""

    def perform() -> str:
        sys.argv = ["owlt", *words]
        main_of_owlt()
        return ""

    return perform


def pages(results: Path, kept: Path) -> str:
    """Every page and every file of a results directory, asked of the dashboard."""
    kept.mkdir(exist_ok=True)
    dashboard = new_app(
        Directories([results]), Background.of(PacketViews(kept, lambda run, out: "")), token=Token("secret")
    )
    dashboard.test_client_class = Client
    dashboard.config["PROPAGATE_EXCEPTIONS"] = True
    client = dashboard.test_client()
    sweeps = f"/sweeps/{results.name}"
    names = ["sender.out", "sender.err", "sender.pcap", "record.json", "secret", "..%2f..%2fvictim%2fsecret", "%00"]
    addresses = ["/", f"{sweeps}/", f"{sweeps}/runs/{RUN}/", f"{sweeps}/runs/{RUN}/packets/index.html"]
    addresses += [f"{sweeps}/runs/{RUN}/files/{name}" for name in names]
    addresses += [f"{sweeps}/report/{name}" for name in ("index.html", "secret", "etc/passwd", "figures/secret", "%00")]
    addresses += [f"{sweeps}/{CERTIFICATE}", f"{sweeps}/certificates/secret"]
    answers = [client.get(address) for address in addresses for _ in range(2)]
    return "".join(answer.get_data().decode(errors="replace") for answer in answers)


def commands(results: Path, other: Path, kept: Path) -> dict[str, Callable[[], str]]:
    """What is done with a results directory, in this order: the commands; then, for those that have examined the
    directory and refused it, what they would have done.
    """
    plan = plan_of(SWEEP)
    return {
        "status": command("status", str(results)),
        "dashboard": partial(pages, results, kept),
        "compare": command("compare", str(results), str(other)),
        "analyse": command("analyse", str(results / "runs" / RUN)),
        "merge": command("merge", str(kept / "merged"), str(results), "--no-report"),
        "merge into it": command("merge", str(results), str(other), "--no-report"),
        "combine": lambda: str(combine([results_root(results)], kept / "combined")),
        "report": command("report", str(results)),
        "run": lambda: perform(plan, results_of(plan, None, results)),
        "analyse, unexamined": lambda: analyse_or_mark(results / "runs" / RUN, "headers", {}),
        "merge, unexamined": lambda: str(merge(kept / "merged unexamined", [results])),
        "merge into it, unexamined": lambda: str(merge(results, [other])),
        "combine, unexamined": lambda: str(combine([results], kept / "combined unexamined")),
        "report, unexamined": lambda: str(make_report(results)),
        "run, unexamined": lambda: perform(plan, results),
    }


def perform(plan: Plan, results: Path) -> str:
    """Perform the missing runs with workers in memory."""
    workers = InMemoryWorkers(plan)
    start = Start(plan, results, "owlt run", machine=workers, guests=1)
    return perform_plan(start, lambda _plan, _done: lambda _entry: None).summary


def attempt(name: str, entry: str, do: Callable[[], str]) -> dict[str, Any]:
    """The exit of a command and its output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with deadline():
                print(do())
            ending = "done"
        except SystemExit as end:
            ending = f"exit {end.code}"
        except Overdue:
            ending = "hangs"
            traceback.print_exc()
        except (OwltError, OSError) as problem:
            ending = "refused"
            print(f"owlt: {printable_lines(str(problem))}")
        except BaseException as problem:
            ending = f"{type(problem).__name__}"
            traceback.print_exc()
    text = out.getvalue() + err.getvalue()
    return {"entry": entry, "command": name, "ending": ending, "text": text}


def make_template(directory: Path) -> Path:
    """Results as `owlt run` leaves them: two runs with captures and certificates."""
    results = write_results(directory, SWEEP)
    write_certificates(results, SWEEP)
    for run in plan_of(SWEEP).runs:
        change_record(results, run.run_id, session=SESSION.model_dump(mode="json"))
        write_captures(results / "runs" / run.run_id)
    make_report(results)
    perform(plan_of(SWEEP), results)
    return results


def prepare(directory: Path) -> Path:
    """Make the results that become hostile, and the victim, for `main`. Returns the victim's directory."""
    template = make_template(directory / "template")
    victim = directory / "victim"
    (victim / "figures").mkdir(parents=True)
    for name in ("secret", "index.html", "figures/secret", "sender.pcap"):
        (victim / name).write_text(SECRET)
    shutil.copy(template / "plan.json", victim / "plan.json")
    return victim


def main(directory: Path, entries: list[str]) -> None:
    """All commands on a results directory with each entry."""
    make_commands_once()
    template, victim = directory / "template", directory / "victim"
    for number, entry in enumerate(entries or HOSTILE):
        results, kept = directory / f"results-{number}", directory / f"kept-{number}"
        shutil.copytree(template, results)
        kept.mkdir()
        HOSTILE[entry](results, victim)
        refused = set()
        for name, do in commands(results, template, kept).items():
            if name.startswith("analyse") and RUN not in entry:
                continue
            if name.endswith(UNEXAMINED) and name.removesuffix(UNEXAMINED) not in refused:
                continue  # the command has done the same
            tried = attempt(name, entry, do)
            refused |= {name} if tried["ending"] in ("refused", "exit 2") else set()
            print(json.dumps(tried), flush=True)
    (directory / CONTROL).symlink_to(victim / "secret")
    (directory / CONTROL).read_text()  # what the tracer would see if a command read the victim's file


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
