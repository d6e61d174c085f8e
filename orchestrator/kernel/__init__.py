"""The virtual-time kernel: `build` finds the cached one or builds one.

`source` chooses and fetches the source (with `apt`, from the `archive`s of this machine), `make` compiles it, `recipe`
has its configuration and patches, `probe` boots it and looks around `inside`, `cache` stores it. Booting a guest for
runs belongs to `orchestrator.rigs`.
"""
