"""The virtual-time kernel: `kernel` finds the cached one, `build` makes one.

`source` chooses and fetches the source, guest.config and the patches here are the recipe, `probe` boots the kernel and
looks around `inside`. Booting a guest for runs belongs to `orchestrator.rigs`.
"""
