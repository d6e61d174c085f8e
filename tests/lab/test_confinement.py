"""A build's command in PID, IPC and mount namespaces of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.binaries import SHOW, results_directories
from owlt.orchestrator.hosts.confinement import (
    ALONE,
    CAPABILITIES,
    IGNORED,
    NO_SUCH_PROGRAM,
    WITHOUT_A_RUN_BYTES,
    Confinement,
    Room,
    confined,
    left_running,
)
from owlt.orchestrator.rigs.enclosure import enclosure
from owlt.orchestrator.rigs.guest import needed_paths
from owlt.orchestrator.rigs.network import ADDRESSES
from tests.conftest import require

RunConfined = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def namespaces() -> None:
    made = subprocess.run(["unshare", "--pid", "--ipc", "--mount", "--fork", "true"], check=False, capture_output=True)
    require(made.returncode == 0, "namespaces (root)")


def enclosed(
    directory: Path,
    command: Sequence[str],
    needed: Sequence[str] = (),
    then: str = "",
    first: str = "",
    results: Path | None = None,
) -> list[str]:
    """The command where a host of the namespace rigs runs it: in a mount namespace that was made for that host.

    `then` are shell lines of the host, `first` those of the machine that it is made from.
    """
    login = directory / "login"
    (directory / "sender").mkdir(exist_ok=True)
    login.mkdir(exist_ok=True)
    (login / "key").write_text("secret")
    (directory / "user_key").write_text("secret")
    for name in ("passwd", "shadow"):
        (login / name).write_text(Path("/etc", name).read_text())
    script = enclosure(directory, "sender", login, [*needed_paths(), *needed], ADDRESSES, results)
    return ["unshare", "--mount", "sh", "-c", f'{first}\n{script}{then}\nexec "$@"', "sh", *command]


ROOM = Room("/run/owlt/sender", ALONE, WITHOUT_A_RUN_BYTES)


@pytest.fixture
def run_confined(tmp_path: Path) -> RunConfined:
    def run(*command: str, capabilities: Sequence[str] = (), **environment: str) -> subprocess.CompletedProcess[str]:
        confining = enclosed(tmp_path, confined(command, Confinement(ROOM, environment, capabilities)))
        return subprocess.run(confining, capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.mark.usefixtures("namespaces")
def test_a_confined_program_has_its_arguments_and_its_status(run_confined: RunConfined) -> None:
    done = run_confined("sh", "-c", 'echo "$1|$2"; exit 7', "sh", "a b", "$c")

    assert (done.returncode, done.stdout) == (7, "a b|$c\n")


@pytest.mark.usefixtures("namespaces")
def test_a_confined_program_sees_no_process_but_its_own(run_confined: RunConfined) -> None:
    assert len(run_confined("sh", "-c", "echo /proc/[0-9]*").stdout.split()) == 2  # its own and the shell's


@pytest.mark.usefixtures("namespaces")
def test_what_a_confined_program_leaves_behind_is_named_and_ended(run_confined: RunConfined) -> None:
    done = run_confined("sh", "-c", "setsid sleep 98765 & sleep 0.5")

    assert left_running(done.stderr) == ["sleep 98765"]
    assert "98765" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("namespaces")
def test_a_program_that_is_not_there_has_a_status_of_its_own(run_confined: RunConfined) -> None:
    done = run_confined("no-such-program")

    assert done.returncode == NO_SUCH_PROGRAM
    assert "owlt: no-such-program: there is no such program on this host" in done.stderr


@pytest.mark.usefixtures("namespaces")
def test_shared_memory_is_nobody_elses(run_confined: RunConfined) -> None:
    run_confined("sh", "-c", "echo mine >/dev/shm/owlt-test-of-confinement")

    assert not Path("/dev/shm/owlt-test-of-confinement").exists()


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize(("beyond_bytes", "is_refused"), [(-1_000_000, False), (1_000_000, True)])
def test_system_v_shared_memory_is_limited_to_128_mb_more_than_the_room(
    run_confined: RunConfined, beyond_bytes: int, is_refused: bool
) -> None:
    size_bytes = WITHOUT_A_RUN_BYTES + 128_000_000 + beyond_bytes
    script = f"import ctypes; print(ctypes.CDLL(None).shmget(0, ctypes.c_size_t({size_bytes}), 0o600) < 0)"

    assert run_confined("/usr/bin/python3", "-c", script).stdout == f"{is_refused}\n"


@pytest.mark.usefixtures("namespaces")
def test_an_environment_is_the_programs_alone(run_confined: RunConfined) -> None:
    done = run_confined("/bin/sh", "-c", "echo $PATH", PATH="/nowhere")

    assert (done.returncode, done.stdout, done.stderr) == (0, "/nowhere\n", "")


@pytest.mark.usefixtures("namespaces")
def test_a_program_is_looked_for_on_the_path_that_it_is_given(run_confined: RunConfined) -> None:
    assert run_confined("env", PATH="/nowhere").returncode == NO_SUCH_PROGRAM


@pytest.mark.usefixtures("namespaces")
def test_what_the_shell_around_it_says_is_not_the_programs(run_confined: RunConfined) -> None:
    done = run_confined("sh", "-c", "kill -TERM $$")

    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "")


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", IGNORED.split(","))
def test_a_signal_lets_the_program_end_in_its_own_time(tmp_path: Path, name: str) -> None:
    script = f"trap 'trap - {name}; sleep 0.3; echo handled; exit 0' {name}; echo ready; while :; do read line; done"
    with subprocess.Popen(
        enclosed(tmp_path, confined(["sh", "-c", script], Confinement(ROOM))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        os.killpg(program.pid, signal.Signals[f"SIG{name}"])
        said, _ = program.communicate(timeout=120)

    assert (said, program.returncode) == ("handled\n", 0)


def capabilities_of(done: subprocess.CompletedProcess[str], kind: str) -> int:
    found = re.search(rf"^Cap{kind}:\s+([0-9a-f]+)$", done.stdout, re.MULTILINE)
    assert found, done
    return int(found[1], 16)


BEYOND_A_RUN = {"sys_module": 16, "sys_rawio": 17, "sys_admin": 21, "sys_boot": 22, "sys_time": 25, "mknod": 27}
"""Bits of linux/capability.h."""
NET_ADMIN = 1 << 12


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("kind", ["Eff", "Prm", "Bnd"])
def test_a_program_has_no_privilege_that_reaches_beyond_its_run(run_confined: RunConfined, kind: str) -> None:
    has = capabilities_of(run_confined("cat", "/proc/self/status"), kind)

    assert not [name for name, bit in BEYOND_A_RUN.items() if has >> bit & 1]
    assert not has & NET_ADMIN
    assert has.bit_count() == len(CAPABILITIES)


@pytest.mark.usefixtures("namespaces")
def test_a_program_has_the_privilege_that_its_profile_asks_for(run_confined: RunConfined) -> None:
    has = capabilities_of(run_confined("cat", "/proc/self/status", capabilities=["NET_ADMIN"]), "Eff")

    assert has & NET_ADMIN


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("place", ["/proc/sys/net", "/sys", "/etc", "/usr", "/", "/run"])
def test_what_is_the_machines_is_read_only(run_confined: RunConfined, place: str) -> None:
    done = run_confined("findmnt", "-no", "OPTIONS", "--target", place)

    assert "ro" in done.stdout.strip().split(","), done


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm"])
def test_what_a_program_may_write_to_is_its_own_and_bounded(run_confined: RunConfined, place: str) -> None:
    done = run_confined("stat", "--file-system", "--format=%b %s %T", place)
    blocks, block_bytes, kind = done.stdout.split()

    assert kind == "tmpfs"
    assert int(blocks) * int(block_bytes) <= WITHOUT_A_RUN_BYTES + 4096


@pytest.mark.usefixtures("namespaces")
def test_the_keys_of_the_rig_are_not_there(run_confined: RunConfined, tmp_path: Path) -> None:
    seen = run_confined("sh", "-c", 'cat "$0/user_key" "$0/login/key"; ls /run /run/owlt', str(tmp_path)).stdout

    assert "secret" not in seen
    assert {"owlt", "sender"} <= set(seen.split())


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("place", ["/root", "/home", "/srv", "/mnt", "/var/lib", "/var/backups", "/etc/ssl/private"])
def test_home_directories_and_data_of_the_machine_are_not_there(run_confined: RunConfined, place: str) -> None:
    """Of directories above what owlt needs, only the names are there."""
    names = [name for each in (*needed_paths(), "/var/lib/dpkg") for name in Path(each).parts]

    assert set(run_confined("ls", "-A", place).stdout.split()) <= set(names)


@pytest.mark.usefixtures("namespaces")
def test_a_key_in_a_home_directory_cannot_be_read(run_confined: RunConfined) -> None:
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix=".ssh-") as keys:
        key = Path(keys, "id_ed25519")
        key.write_text("secret")
        done = run_confined("cat", str(key))

    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("path", ["/etc/shadow-", "/etc/gshadow", "/etc/sudoers"])
def test_what_a_user_of_the_machine_may_not_read_is_empty(run_confined: RunConfined, path: str) -> None:
    require(Path(path).exists() and Path(path).stat().st_size > 0, f"a machine with {path}")

    assert run_confined("cat", path).stdout == ""


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", ["Wired connection 1", r"a\b", "a\tb", "a#b", "keys of/it"])
def test_a_secret_below_a_mount_of_etc_is_empty_with_any_name(tmp_path: Path, name: str) -> None:
    secret = Path("/etc/alternatives", name)
    first = f"""mount --make-rprivate / && mount -t tmpfs owlt-test /etc/alternatives
(umask 077 && mkdir -p '{secret.parent}' && echo secret >'{secret}')
(umask 022 && echo known >/etc/alternatives/known)"""
    read = ["sh", "-c", f"cat '{secret}' 2>/dev/null; cat /etc/alternatives/known"]
    done = subprocess.run(
        enclosed(tmp_path, confined(read, Confinement(ROOM)), first=first), capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (0, "known\n"), done.stderr


def reading_of_results(
    directory: Path, place: str, is_known: bool, first: str = ""
) -> subprocess.CompletedProcess[str]:
    """A confined program reads a file of a clone in a directory of the machine, and the plans of results in it, one of
    which is within another's results."""
    with tempfile.TemporaryDirectory(dir=place, prefix="owlt test ") as clone:
        Path(clone).chmod(0o755)
        outer = Path(clone, "results", "checks")
        plans = [outer / "plan.json", outer / "cfdp" / "plan.json"]
        plans[-1].parent.mkdir(parents=True)
        for file in (*plans, Path(clone, "program")):
            file.write_text("seed")
        known = directory / "known"
        known.write_text("".join(f"{path}\n" for path in results_directories()))
        read = confined(["cat", str(Path(clone, "program")), *map(str, plans)], Confinement(ROOM))
        command = enclosed(directory, read, results=known if is_known else None, first=first)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("place", ["/opt", "/usr/local"])
def test_results_of_an_owlt_among_the_systems_programs_cannot_be_read(
    tmp_path: Path, place: str, is_known: bool
) -> None:
    done = reading_of_results(tmp_path, place, is_known)

    assert (done.returncode, done.stdout) == (1, "seed"), done.stderr


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("place", ["/opt", "/usr/local"])
def test_results_on_a_file_system_of_its_own_cannot_be_read(tmp_path: Path, place: str, is_known: bool) -> None:
    own = f"mount --make-rprivate / && mount --bind {place} {place}"
    done = reading_of_results(tmp_path, place, is_known, first=own)

    assert (done.returncode, done.stdout) == (1, "seed"), done.stderr


LOCKING = (
    "import fcntl; f = open('/usr/bin/env'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked', flush=True)"
)


@pytest.mark.usefixtures("namespaces")
def test_hosts_do_not_share_the_locks_of_a_file(run_confined: RunConfined, tmp_path: Path) -> None:
    holding = ["python3", "-c", f"{LOCKING}; input()"]
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        beside = subprocess.run(["python3", "-c", LOCKING], capture_output=True, text=True, check=False)
        confined_beside = run_confined("python3", "-c", LOCKING)
        holder.communicate("\n")

    assert "BlockingIOError" in beside.stderr
    assert confined_beside.stdout == "locked\n"


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", ["bin", "lib", "elsewhere", "as a link"])
def test_a_program_that_a_profile_names_is_there_with_what_is_beside_it(tmp_path: Path, name: str) -> None:
    """In a directory like a home: its other files, and results below what is shown, are not there."""
    with tempfile.TemporaryDirectory(dir="/srv", prefix="owlt-test-") as home:
        prefix = Path(home, "proto")
        for inner in ("bin", "lib", "results/first"):
            (prefix / inner).mkdir(parents=True)
        (prefix / "results" / "first" / "plan.json").write_text("seed")
        Path(home, ".profile").write_text("")
        Path(home, "secret").write_text("")
        program = prefix / ("program" if name == "elsewhere" else "bin/program")
        program.write_text(f"#!/bin/sh\ntest -d {prefix}/lib && ls -A {home} {prefix}/results/first; echo x >>$0\n")
        program.chmod(0o755)
        named = Path(home, "link") if name == "as a link" else prefix / "lib" if name == "lib" else program
        if name == "as a link":
            named.symlink_to(program)
        shown = [named] if name != "lib" else [named, program]
        done = subprocess.run(
            enclosed(
                tmp_path,
                confined([str(program)], Confinement(ROOM)),
                then="\n".join([SHOW, *(f"show {each}" for each in shown)]),
            ),
            capture_output=True,
            text=True,
            check=False,
        )

    seen = done.stdout.replace(home, "").split()
    assert seen == [":", *(["link"] if name == "as a link" else []), "proto", "/proto/results/first:"], done
    assert "Read-only file system" in done.stderr


@pytest.mark.usefixtures("namespaces")
def test_programs_that_are_links_beside_a_named_one_are_there(tmp_path: Path) -> None:
    """Each in another directory, as in the tree of a project that was built there."""
    with tempfile.TemporaryDirectory(dir="/srv", prefix="owlt-test-") as top:
        links = Path(top, "links", "bin")
        links.mkdir(parents=True)
        for name in ("admin", "receive"):
            program = Path(top, "built", name, name)
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\necho {name}\n")
            program.chmod(0o755)
            (links / name).symlink_to(program)
        command = ["sh", "-c", f"{links}/admin; $(dirname {links}/admin)/receive"]
        confining = enclosed(tmp_path, confined(command, Confinement(ROOM)), then=f"{SHOW}\nshow {links}/admin")
        done = subprocess.run(confining, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("admin\nreceive\n", "")


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("named", ["/root", "/srv", "/"])
def test_no_home_directory_and_no_top_of_the_machine_is_shown(tmp_path: Path, named: str) -> None:
    done = subprocess.run(
        enclosed(tmp_path, confined(["ls", "-A", "/root", "/srv"], Confinement(ROOM)), then=f"{SHOW}\nshow {named}"),
        capture_output=True,
        text=True,
        check=False,
    )

    names = [name for each in needed_paths() for name in Path(each).parts]
    assert set(done.stdout.split()) <= {"/root:", "/srv:", *names}, done


@pytest.mark.usefixtures("namespaces")
def test_a_device_of_the_machine_is_not_there(run_confined: RunConfined) -> None:
    seen = set(run_confined("ls", "/dev").stdout.split())

    assert not seen & {"mem", "kmsg", "console", "vda", "sda", "nvme0n1", "tty0"}


@pytest.mark.usefixtures("namespaces")
def test_the_processes_of_a_program_are_bounded(run_confined: RunConfined) -> None:
    major, minor = (int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    require((major, minor) >= (6, 14), "a kernel whose PID namespaces have limits of their own (6.14)")

    assert run_confined("cat", "/proc/sys/kernel/pid_max").stdout.strip() == "1024"
    assert int(Path("/proc/sys/kernel/pid_max").read_text()) > 1024


@pytest.mark.parametrize("name", ["a clone ", "a,noauto,clone of: ", r"a\clone "])
@pytest.mark.parametrize("place", ["/tmp", "/run"])
def test_a_clone_below_a_directory_that_is_hidden_from_a_build_is_there_and_read_only(
    place: str, name: str, namespaces: None, tmp_path: Path
) -> None:
    """Commas, colons and backslashes have a meaning in the options of an overlay."""
    with tempfile.TemporaryDirectory(dir=place, prefix=name) as clone, tempfile.NamedTemporaryFile() as other:
        program = Path(clone, "program")
        program.write_text(f'#!/bin/sh\ntouch "$0"; [ ! -e {other.name} ] && echo started\n')
        program.chmod(0o755)
        done = subprocess.run(
            enclosed(tmp_path, confined([str(program)], Confinement(ROOM)), [clone]),
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr
    assert "Read-only file system" in done.stderr
