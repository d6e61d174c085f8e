"""Tokens in files and in headers, and what is let through with and without them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import pytest

from owlt.emulator.faults import LeaseHeld, LeaseLost, NotAllowed
from owlt.emulator.service.access import Credentials, credentials_of, read_token
from owlt.emulator.service.client import EmulatorClient
from owlt.emulator.service.methods import CHANGING, READING
from tests.unit.emulator.served import CHANGES, CHANNEL, OTHER_CHANNEL, RememberingEmulator, served

TOKEN = "correct-horse-battery"
WRONG_TOKENS = [None, "", "correct-horse-batterz", TOKEN + "y", TOKEN[:-1], "ütterly-wrong-token"]


@pytest.fixture
def emulator() -> RememberingEmulator:
    return RememberingEmulator()


@pytest.fixture
def address(emulator: RememberingEmulator) -> Iterator[str]:
    with served(emulator, token=TOKEN) as address:
        yield address


def token_file(folder: Path, content: str, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(content)
    path.chmod(mode)
    return path


def proxy(address: str, token: str | None = TOKEN, lease: str | None = None) -> ServerProxy:
    headers = {} if token is None else {"Authorization": b"Bearer " + token.encode()}
    headers |= {} if lease is None else {"X-Owlt-Lease": lease.encode()}
    return ServerProxy(f"http://{address}", headers=list(headers.items()))  # type: ignore[arg-type]


def fault_of(address: str, method: str, *parameters: Any, **shown: str | None) -> int:
    """The code of the fault that a call ends in; 0: none."""
    try:
        with proxy(address, **shown) as service:
            getattr(service, method)(*parameters)
    except Fault as fault:
        return fault.faultCode
    return 0


def test_a_token_is_read_without_its_line_end(tmp_path: Path) -> None:
    assert read_token(token_file(tmp_path, f"{TOKEN}\n")) == TOKEN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ValueError, match=rf"others may read it \(mode {mode:04o}\).*: chmod 600 "):
        read_token(token_file(tmp_path, TOKEN, mode))


def test_a_token_that_systemd_guards_is_read_whatever_its_group_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))

    assert read_token(token_file(tmp_path, TOKEN, 0o440)) == TOKEN


@pytest.mark.parametrize("content", ["", "fifteen-letters", "sixteen letters!", "sechzehn-Zeichenß", "a" * 16 + "\nb"])
def test_what_is_no_token_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match="expected one line of 16 to 1000 ASCII characters"):
        read_token(token_file(tmp_path, content))


@pytest.mark.parametrize(
    ("authorization", "token"),
    [
        (f"Bearer {TOKEN}", TOKEN),
        (f"bearer  {TOKEN} ", TOKEN),
        ("Basic " + b64encode(f"owlt:{TOKEN}".encode()).decode(), TOKEN),
        ("Basic " + b64encode(f":{TOKEN}:more".encode()).decode(), f"{TOKEN}:more"),
        ("Basic " + b64encode(TOKEN.encode()).decode(), ""),
        ("Basic ====", None),
        ("Basic \xff\xff", None),
        ("Digest username=owlt", None),
        ("", None),
    ],
)
def test_the_token_is_found_in_the_header(authorization: str, token: str | None) -> None:
    headers = Message()
    headers["Authorization"] = authorization
    headers["X-Owlt-Lease"] = "5"

    assert credentials_of(headers) == Credentials(token, "5")


@pytest.mark.parametrize("token", WRONG_TOKENS)
@pytest.mark.parametrize("method", CHANGING)
def test_nothing_changes_without_the_token(
    address: str, emulator: RememberingEmulator, method: str, token: str | None
) -> None:
    assert fault_of(address, method, *CHANGES[method], token=token) == NotAllowed.code
    assert emulator.made == []


@pytest.mark.parametrize("method", CHANGING)
def test_everything_changes_with_the_token(address: str, emulator: RememberingEmulator, method: str) -> None:
    assert fault_of(address, method, *CHANGES[method]) == 0
    assert emulator.made == [method]


@pytest.mark.parametrize("method", READING)
def test_reading_needs_no_token(address: str, method: str) -> None:
    assert fault_of(address, method, token=None) == 0


@pytest.mark.parametrize(
    ("method", "parameters"), [("lease", ("night", 10)), ("renew", ("x", 10)), ("release", ("x",))]
)
def test_a_lease_needs_the_token(address: str, method: str, parameters: tuple[Any, ...]) -> None:
    assert fault_of(address, method, *parameters, token=None) == NotAllowed.code
    assert fault_of(address, method, *parameters) in (0, LeaseLost.code)


def test_the_token_in_a_url_is_enough(address: str, emulator: RememberingEmulator) -> None:
    with ServerProxy(f"http://owlt:{TOKEN}@{address}") as service:
        service.clear()

    assert emulator.made == ["clear"]


def test_each_of_several_calls_needs_the_token(address: str, emulator: RememberingEmulator) -> None:
    calls = [{"methodName": name, "params": list(CHANGES.get(name, ()))} for name in (*CHANGING, "describe")]
    with proxy(address, token=None) as service:
        refused: Any = service.system.multicall(calls)
    made_without = list(emulator.made)
    with proxy(address) as service:
        taken: Any = service.system.multicall(calls)

    assert [answer["faultCode"] for answer in refused[:-1]] == [NotAllowed.code] * len(CHANGING)
    assert refused[-1] == [CHANNEL.to_wire()]
    assert made_without == []
    assert not any(isinstance(answer, dict) for answer in taken)
    assert emulator.made == list(CHANGING)


@pytest.mark.parametrize("method", CHANGING)
def test_nothing_changes_without_the_lease_that_somebody_holds(
    address: str, emulator: RememberingEmulator, method: str
) -> None:
    with proxy(address) as service:
        lease: Any = service.lease("night", 10)

    assert fault_of(address, method, *CHANGES[method]) == LeaseHeld.code
    assert fault_of(address, method, *CHANGES[method], lease="0123456789abcdef") == LeaseLost.code
    assert fault_of(address, method, *CHANGES[method], token=None, lease=lease["lease"]) == NotAllowed.code
    assert emulator.made == []
    assert fault_of(address, method, *CHANGES[method], lease=lease["lease"]) == 0
    assert emulator.made == [method]


def test_each_of_several_calls_needs_the_lease(address: str, emulator: RememberingEmulator) -> None:
    with proxy(address) as service:
        service.lease("night", 10)
        answers: Any = service.system.multicall([{"methodName": "clear"}, {"methodName": "describe"}])

    assert answers[0]["faultCode"] == LeaseHeld.code
    assert answers[1] == [CHANNEL.to_wire()]
    assert emulator.made == []


def test_reading_needs_no_lease(address: str) -> None:
    with proxy(address) as service:
        service.lease("night", 10)

    assert all(fault_of(address, method, token=None) == 0 for method in READING)


def test_the_status_of_a_lease_does_not_tell_its_id(address: str) -> None:
    with proxy(address) as service:
        lease: Any = service.lease("night", 10)
        status: Any = service.lease_status()

    assert (status["held"], status["holder"]) == (True, "night")
    assert 9 < status["seconds_left"] <= 10
    assert lease["lease"] not in str(status)


def test_a_client_with_a_lease_has_the_emulator_to_itself(address: str) -> None:
    own, other = (EmulatorClient(f"http://{address}", timeout_s=5, token=TOKEN) for _ in range(2))
    own.lease("night", 10)

    with pytest.raises(LeaseHeld, match=r"night holds it for \d+\.\d s"):
        other.configure(OTHER_CHANNEL)
    with pytest.raises(LeaseHeld, match="night"):
        other.lease("day", 10)
    assert other.describe() == CHANNEL
    assert own.configure(OTHER_CHANNEL) == OTHER_CHANNEL
    own.renew(10)
    own.release()
    assert other.describe().unimpaired
    assert other.configure(OTHER_CHANNEL) == OTHER_CHANNEL


def test_a_client_whose_lease_expired_is_reported(address: str, emulator: RememberingEmulator) -> None:
    client = EmulatorClient(f"http://{address}", timeout_s=5, token=TOKEN)
    client.lease("night", 0.1)
    assert emulator.cleared.wait(5)

    with pytest.raises(LeaseLost, match="no client holds one"):
        client.configure(OTHER_CHANNEL)
    with pytest.raises(LeaseLost):
        client.renew(10)
    assert client.describe().unimpaired
    client.lease("night", 10)
    assert client.configure(OTHER_CHANNEL) == OTHER_CHANNEL


def test_a_client_has_a_channel_certified(address: str, emulator: RememberingEmulator) -> None:
    client = EmulatorClient(f"http://{address}", timeout_s=5, token=TOKEN)

    assert client.certify(OTHER_CHANNEL, {"packets": 10}) == {"passed": True}
    assert emulator.channel == OTHER_CHANNEL


def test_a_client_without_a_lease_has_none_to_renew(address: str) -> None:
    with pytest.raises(LeaseLost, match="this client has no lease"):
        EmulatorClient(f"http://{address}", token=TOKEN).renew(10)


def test_a_client_with_a_wrong_token_is_reported(address: str, emulator: RememberingEmulator) -> None:
    with pytest.raises(NotAllowed, match="got a wrong one"):
        EmulatorClient(f"http://{address}", token="wrong-horse-battery").clear()
    with pytest.raises(NotAllowed, match="got none"):
        EmulatorClient(f"http://{address}").clear()
    assert emulator.made == []


def test_a_client_takes_the_token_from_its_url_and_tells_nobody(address: str, emulator: RememberingEmulator) -> None:
    client = EmulatorClient(f"http://owlt:{TOKEN}@{address}")
    client.clear()

    assert emulator.made == ["clear"]
    assert client.url == f"http://{address}"


@pytest.mark.parametrize("method", CHANGING)
def test_without_a_token_of_its_own_a_service_wants_none(emulator: RememberingEmulator, method: str) -> None:
    with served(emulator) as address:
        assert fault_of(address, method, *CHANGES[method], token=None) == 0
