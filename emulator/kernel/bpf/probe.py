"""Whether this kernel takes the eBPF programs, found by loading them."""

from owlt.emulator.kernel.bpf.loading import PROGRAMS, BpfError, BpfObject


def bpf_reason() -> str:
    """Return why the kernel does not take them; empty if it does."""
    try:
        for name in ("errors", "gate"):
            BpfObject(PROGRAMS / f"{name}.bpf.o").close()
    except BpfError as error:
        return str(error)
    return ""
