"""Inventories of lab rigs: files in Ansible's YAML format that also say what owlt needs of each host.

Each group below `all.children` is a rig of three hosts. As in Ansible, a variable of a host replaces that of its group,
and this that of `all`. Reading looks at the text only, never at a machine.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from owlt.inputs.mistake import Key, Mistake, Place, got, unexpected
from owlt.inputs.reader import Positions
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import OwltError, ProfileError, did_you_mean
from owlt.orchestrator.profiles.load import read_document

LabRole = Literal["sender", "emulator", "receiver"]
LAB_ROLES: tuple[LabRole, ...] = ("sender", "emulator", "receiver")
ROLE_KEY = "owlt_role"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_INTERFACE = re.compile(r"[^\s/:]{1,15}")
_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+=*( .*)?")
_LOGIN = re.compile(r"(?P<user>[^\s@:]+)@(?P<address>[^\s@:]+|\[[0-9a-fA-F:]+\])(:(?P<port>\d{1,5}))?")


def _require(pattern: re.Pattern[str], text: str, expected: str, fix: str = "") -> str:
    if not pattern.fullmatch(text):
        raise unexpected(expected, fix)
    return text


def _interface(text: str) -> str:
    lower = text.lower()
    if _MAC.fullmatch(lower):
        return lower
    return _require(_INTERFACE, text, "the name or the MAC address of an interface, such as enp3s0")


def _interface_name(text: str) -> str:
    return _require(_INTERFACE, text, "the name of an interface, such as eno1")


def _host_key(text: str) -> str:
    return _require(
        _KEY,
        text,
        "a public host key, as in 'ssh-ed25519 AAAA...'",
        "print it on the host: cat /etc/ssh/ssh_host_*.pub",
    )


def _login(text: str) -> str:
    return _require(_LOGIN, text, "USER@ADDRESS or USER@ADDRESS:PORT")


def _test_address(text: str) -> str:
    try:
        interface = ipaddress.IPv4Interface(text)
    except ValueError:
        interface = None
    if interface is None or "/" not in text or interface.network.num_addresses < 4:
        raise unexpected("an IPv4 address with its prefix, such as 10.77.0.1/24")
    return text


def _service_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.password:
        raise unexpected("https://ADDRESS:PORT, without the token, which goes into owlt_service_token_file")
    return text


Interface = Annotated[str, AfterValidator(_interface)]
HostKey = Annotated[str, AfterValidator(_host_key)]


class LabHostEntry(BaseModel):
    """The variables that all hosts of a rig have. Other variables of Ansible (`ansible_...`) are left to Ansible."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: Annotated[str, Field(exclude=True)] = ""
    role: Annotated[LabRole, Field(alias=ROLE_KEY, description="sender, emulator or receiver")]
    address: Annotated[str, Field(alias="ansible_host", description="address on the management network")]
    port: Annotated[int, Field(alias="ansible_port", ge=1, le=65535, description="port of sshd")] = 22
    user: Annotated[str, Field(alias="ansible_user", description="user that owlt logs in as")] = "owlt"
    key: Annotated[
        Path,
        Field(
            alias="ansible_ssh_private_key_file",
            description="private key without passphrase; a relative path counts from the inventory",
        ),
    ]
    host_key: Annotated[
        HostKey, Field(alias="owlt_host_key", description="public key of the host: 'ssh-ed25519 AAAA...'")
    ]
    provision: Annotated[
        bool,
        Field(
            alias="owlt_provision",
            description="false: `owlt rig provision`, `update`, `collect` and `remove` skip this host, such "
            "as the emulator of another lab",
        ),
    ] = True
    jump: Annotated[
        Annotated[str, AfterValidator(_login)] | None,
        Field(alias="owlt_jump", description="USER@ADDRESS[:PORT] of a host that the connection goes through"),
    ] = None
    clock: Annotated[
        Literal["chrony", "ptp", "none"],
        Field(alias="owlt_clock", description="what `owlt rig provision` synchronises the clock with; none: nothing"),
    ] = "chrony"
    ptp_interface: Annotated[
        Annotated[str, AfterValidator(_interface_name)] | None,
        Field(alias="owlt_ptp_interface", description="name of the interface with PTP: not one of the test path"),
    ] = None
    ptp_stamps: Annotated[
        Literal["hardware", "software"],
        Field(alias="owlt_ptp_stamps", description="hardware: the card takes the time stamps of PTP; software: Linux"),
    ] = "hardware"
    ptp_domain: Annotated[int, Field(alias="owlt_ptp_domain", ge=0, le=127, description="domain of PTP")] = 0
    governor: Annotated[
        str,
        Field(
            alias="owlt_governor",
            description="frequency governor of the processors; keep: as it is",
            pattern=r"^[a-z_]+$",
        ),
    ] = "performance"
    irq_cpus: Annotated[
        str,
        Field(
            alias="owlt_irq_cpus",
            description="processors for the interrupts of the test interfaces, such as 2-5,8; card: those close to the "
            "card; keep: as they are",
            pattern=r"^(card|keep|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$",
        ),
    ] = "card"
    jump_host_key: Annotated[
        HostKey | None, Field(alias="owlt_jump_host_key", description="public key of that host")
    ] = None
    python: Annotated[
        str, Field(alias="owlt_python", description="Python that has owlt, on the host", pattern="^/")
    ] = "/opt/owlt/bin/python"
    lease_s: Annotated[
        int,
        Field(
            alias="owlt_lease_s",
            ge=5,
            le=3600,
            description="seconds after which a host ends its session, and the emulator clears its channel, if owlt "
            "does not renew the lease",
        ),
    ] = 120


class TestHostEntry(LabHostEntry):
    """The sender or the receiver."""

    __test__ = False  # not a class of tests

    test_interface: Annotated[
        Interface, Field(alias="owlt_test_interface", description="name or MAC of the interface towards the emulator")
    ]
    test_address: Annotated[
        Annotated[str, AfterValidator(_test_address)],
        Field(alias="owlt_test_address", description="address on the test path with its prefix, such as 10.77.0.1/24"),
    ]
    third_party: Annotated[
        str, Field(alias="owlt_third_party", description="directory of third-party implementations", pattern="^/")
    ] = "/opt/owlt/third-party"


class EmulatorEntry(LabHostEntry):
    """The emulator: a host of the rig, or another lab's that admits this login."""

    sender_port: Annotated[
        Interface, Field(alias="owlt_sender_port", description="name or MAC of the bridge port towards the sender")
    ]
    receiver_port: Annotated[
        Interface, Field(alias="owlt_receiver_port", description="name or MAC of the bridge port towards the receiver")
    ]
    service: Annotated[
        Annotated[str, AfterValidator(_service_url)],
        Field(alias="owlt_service", description="URL of the emulator service: https://ADDRESS:PORT"),
    ]
    service_ca: Annotated[
        Path, Field(alias="owlt_service_ca", description="certificate (PEM) that the service's is checked against")
    ]
    admitted: Annotated[
        str | None,
        Field(
            alias="owlt_admitted",
            description="networks that may reach the service, such as 192.0.2.0/24, as `owlt rig provision` "
            "configures it; default: the network of ansible_host; all: every network",
        ),
    ] = None
    token_file: Annotated[
        Path, Field(alias="owlt_service_token_file", description="file with the service's token, mode 600")
    ]


class LabRig(BaseModel):
    """One rig of an inventory."""

    model_config = ConfigDict(frozen=True)

    name: str
    sender: TestHostEntry
    emulator: EmulatorEntry
    receiver: TestHostEntry

    @property
    def hosts(self) -> tuple[LabHostEntry, LabHostEntry, LabHostEntry]:
        """The hosts in the order of the test path."""
        return self.sender, self.emulator, self.receiver


E = TypeVar("E", bound=LabHostEntry)
MODELS: dict[LabRole, type[LabHostEntry]] = {
    "sender": TestHostEntry,
    "emulator": EmulatorEntry,
    "receiver": TestHostEntry,
}


def read_inventory(path: Path) -> dict[str, LabRig]:
    """The rigs of an inventory by name. Raises ProfileError with every mistake in it."""
    document = read_document(path)
    reading = _Reading(path, document.positions)
    rigs = reading.rigs(document.value)
    if reading.mistakes:
        raise ProfileError(*reading.mistakes)
    return rigs


def require_inventory(specification: str | None, others: Collection[str]) -> None:
    """Raises OwltError for a misspelt name of another rig where an inventory is expected, too."""
    if specification and not Path(specification).exists() and (fix := did_you_mean(specification, others)):
        expected = f"an inventory, or {' or '.join(others)}"
        raise OwltError(Mistake.of("--rig", got(specification), expected, fix))


def lab_rig(specification: str) -> tuple[Path, LabRig]:
    """The inventory and the rig of INVENTORY or INVENTORY:RIG. Raises ProfileError or OwltError."""
    text, separator, name = specification.rpartition(":")
    path = Path(text if separator and not Path(specification).exists() else specification)
    rigs = read_inventory(path)
    if path == Path(specification):
        if len(rigs) > 1:
            raise OwltError(
                Mistake.of("--rig", f"{path} has {len(rigs)} rigs", f"{path}:RIG", f"rigs: {', '.join(rigs)}")
            )
        return path, next(iter(rigs.values()))
    if name not in rigs:
        fix = did_you_mean(name, rigs, f"rigs: {', '.join(rigs)}")
        raise OwltError(Mistake.of("--rig", f"{path} has no rig {name!r}", fix=fix))
    return path, rigs[name]


class _Reading:
    """Collects the mistakes of one file."""

    def __init__(self, path: Path, positions: Positions) -> None:
        self._path = path
        self._positions = positions
        self.mistakes: list[Mistake] = []

    def rigs(self, value: Any) -> dict[str, LabRig]:
        groups = _at(value, "all", "children")
        if not isinstance(groups, dict) or not groups:
            expected = "all: {children: {RIG: {hosts: ...}}}, as in profiles/rigs/example.yaml"
            self._complain((), "this is not an inventory of rigs", expected)
            return {}
        self._check_keys(("all",), value["all"], ("vars", "children"))
        shared = self._variables(("all", "vars"), value["all"].get("vars"))
        rigs = {name: self._rig(name, group, shared) for name, group in groups.items()}
        return {name: rig for name, rig in rigs.items() if rig is not None}

    def _rig(self, name: str, group: Any, shared: dict[str, tuple[Any, Key]]) -> LabRig | None:
        where = ("all", "children", name)
        hosts = _at(group, "hosts")
        if not isinstance(hosts, dict):
            self._complain(where, "has no hosts", "hosts: with a sender, an emulator and a receiver")
            return None
        self._check_keys(where, group, ("vars", "hosts"))
        before = len(self.mistakes)
        variables = shared | self._variables((*where, "vars"), group.get("vars"))
        entries = [self._host(host, (*where, "hosts", host), values, variables) for host, values in hosts.items()]
        by_role = {entry.role: entry for entry in entries if entry is not None}
        if len(self.mistakes) == before and (len(entries) != 3 or len(by_role) != 3):
            roles = ", ".join(entry.role for entry in entries if entry) or "none"
            self._complain((*where, "hosts"), f"got {roles}", "one sender, one emulator and one receiver")
        if len(self.mistakes) > before:
            return None
        rig = LabRig(name=name, **{str(role): entry for role, entry in by_role.items()})
        self._check_together(rig, where)
        return rig

    def _host(self, name: str, where: Key, values: Any, variables: dict[str, tuple[Any, Key]]) -> LabHostEntry | None:
        if not _NAME.fullmatch(str(name)):
            self._complain(where, got(name), "a host name of letters, digits, hyphens and dots")
            return None
        merged = variables | self._variables(where, values)
        role, place = merged.get(ROLE_KEY, (None, where))
        model = MODELS[role] if role in LAB_ROLES else None
        if model is None:
            problem = got(role) if ROLE_KEY in merged else f"{ROLE_KEY} is missing"
            self._complain(place, problem, "sender, emulator or receiver")
            return None
        # what the emulator alone needs may be a variable of the group, and the other way round
        wanted = {key: each for key, each in merged.items() if key in aliases(model) or each[1][: len(where)] == where}
        return self._validated(model, name, where, wanted)

    def _validated(self, model: type[E], name: str, where: Key, variables: dict[str, tuple[Any, Key]]) -> E | None:
        own = {
            key: value
            for key, (value, _) in variables.items()
            if key in aliases(model) or not key.startswith("ansible_")
        }
        try:
            entry = model.model_validate(own)
        except ValidationError as problem:
            for mistake in mistakes_in(problem, _by_alias(model)):
                key = str(mistake.where.key[0]) if mistake.where.key else ""
                self.mistakes.append(mistake.at(self._positions.place(variables.get(key, (None, (*where, key)))[1])))
            return None
        paths = {
            field: self._resolved(value)
            for field in ("key", "service_ca", "token_file")
            if isinstance(value := getattr(entry, field, None), Path)
        }
        return entry.model_copy(update={"name": name, **paths})

    def _resolved(self, path: Path) -> Path:
        """A path of the inventory, which counts from the inventory's directory."""
        return self._path.absolute().parent / path.expanduser()

    def _check_together(self, rig: LabRig, where: Key) -> None:
        sender, receiver = (ipaddress.IPv4Interface(end.test_address) for end in (rig.sender, rig.receiver))
        key = (*where, "hosts", rig.receiver.name, "owlt_test_address")
        if sender.network != receiver.network or sender.ip == receiver.ip:
            problem = f"got {receiver} here and {sender} at the sender"
            self._complain(key, problem, "two addresses of one network")
        for host in rig.hosts:
            if host.jump and not host.jump_host_key:
                self._complain((*where, "hosts", host.name), "owlt_jump_host_key is missing", "the key of owlt_jump")
            self._check_clock(rig, host, (*where, "hosts", host.name))
        for name in ("python", "third_party"):
            if getattr(rig.sender, name) != getattr(rig.receiver, name):
                self._complain((*where, "hosts", rig.receiver.name, f"owlt_{name}"), "differs from the sender's")
        if rig.emulator.sender_port == rig.emulator.receiver_port:
            self._complain((*where, "hosts", rig.emulator.name, "owlt_receiver_port"), "is the sender's port as well")

    def _check_clock(self, rig: LabRig, host: LabHostEntry, where: Key) -> None:
        test_path: tuple[str, ...] = (rig.emulator.sender_port, rig.emulator.receiver_port)
        if isinstance(host, TestHostEntry):
            test_path = (host.test_interface,)
        if host.clock == "ptp" and host.ptp_interface is None:
            self._complain(where, "owlt_ptp_interface is missing", "the interface with PTP, such as eno1")
        elif host.ptp_interface in test_path:
            expected = "an interface of the management network: a session takes those of the test path"
            self._complain((*where, "owlt_ptp_interface"), got(host.ptp_interface), expected)

    def _variables(self, where: Key, values: Any) -> dict[str, tuple[Any, Key]]:
        """Variables with the place of each; only owlt's and Ansible's."""
        if values is None:
            return {}
        if not isinstance(values, dict):
            self._complain(where, got(values), "keys and values")
            return {}
        known = {alias for model in MODELS.values() for alias in aliases(model)}
        kept = {}
        for name, value in values.items():
            if str(name) in known or str(name).startswith("ansible_"):
                kept[str(name)] = (value, (*where, name))
            else:
                fix = did_you_mean(str(name), known, f"known: {', '.join(sorted(known))}, and any ansible_...")
                self._complain((*where, name), "is not a known variable", fix=fix)
        return kept

    def _check_keys(self, where: Key, value: dict[str, Any], known: tuple[str, ...]) -> None:
        for name in value:
            if name not in known:
                fix = did_you_mean(str(name), known, f"known: {', '.join(known)}")
                self._complain((*where, name), "is not a known key", fix=fix)

    def _complain(self, key: Key, problem: str, expected: str = "", fix: str = "") -> None:
        where = self._positions.place(key) if key else Place(str(self._path))
        self.mistakes.append(Mistake(problem, expected, fix, where))


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def aliases(model: type[LabHostEntry]) -> dict[str, str]:
    """The variables of a model, and its fields."""
    return {str(field.alias): name for name, field in model.model_fields.items() if field.alias}


_ALIASED: dict[type[LabHostEntry], type[BaseModel]] = {}


def _by_alias(model: type[LabHostEntry]) -> type[BaseModel]:
    """The model with its variables as the names of its fields, which mistakes are described by."""
    if model not in _ALIASED:
        from pydantic import create_model

        fields: dict[str, Any] = {
            alias: (model.model_fields[name].annotation, Field(description=model.model_fields[name].description))
            for alias, name in aliases(model).items()
        }
        _ALIASED[model] = create_model(model.__name__, **fields)
    return _ALIASED[model]


def login_parts(login: str) -> tuple[str, str, int]:
    """User, address and port of USER@ADDRESS[:PORT]."""
    match = _LOGIN.fullmatch(login)
    assert match is not None, "validated"
    return match["user"], match["address"].strip("[]"), int(match["port"] or 22)
