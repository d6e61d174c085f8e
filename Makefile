# Everything a user or CI does, by name: `make help`.
SHELL := /bin/bash
PYTHON ?= $(shell command -v /usr/bin/python3 || command -v python3)
BIN := .venv/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)
SWEEP ?= profiles/sweeps/demo.yaml
PART ?= all
SECONDS ?= 600
RESULTS ?= results/demo

.PHONY: help announce setup demo test unit system lab lint bench equality accuracy power builds builds-table fuzz clean

help:  ## list these
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: announce setup  ## install what is needed, run the demo sweep, print the report's path
	$(BIN)/owlt run $(SWEEP)

announce:
	@.ci/announce

test: setup lint unit system lab  ## everything that has to pass

builds: setup  ## third-party builds that registries have: make builds BUILD=licklider, or all of them
	@SUDO="$(SUDO)" $(BIN)/owlt builds install $(BUILD)

builds-table: setup  ## every build that is installed over three channels; the last line is a summary
	$(BIN)/owlt implementations table

setup: .venv/.made  ## Debian packages, virtual environment, eBPF programs, virtual-time kernel
	@SUDO="$(SUDO)" .ci/debian-packages
	@$(BIN)/python -m emulator.kernel.compile
	@$(BIN)/owlt kernel build

unit: .venv/.made  ## no root, seconds
	@$(BIN)/python -m emulator.kernel.compile
	$(BIN)/python -m pytest tests/unit -n 2

system: setup  ## in guests: real netem, real sshd, real builds
	-@SUDO="$(SUDO)" $(BIN)/owlt builds install licklider normcast uftp ngtcp2 socat iperf3
	$(BIN)/python -m pytest tests/system -n 2 --dist loadfile

lab: setup  ## namespaces of this machine's kernel as hosts
	$(BIN)/python -m pytest tests/lab

lint: .venv/.made  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy emulator orchestrator agents captures reports

bench: setup  ## costs, as ratios in one run: make bench PART=kernel|channel|demo|endpoints|packets|disturbance|kills
	$(BIN)/python -m tests.bench $(PART)

equality: setup  ## whether owlt and tshark say the same of every run: make equality RESULTS=results/demo
	$(BIN)/python -m tests.equality $(RESULTS)

fuzz: .venv/.made  ## ten minutes of hostile bytes for every decoder and engine: make fuzz SECONDS=600
	-@$(MAKE) -s .venv/fuzz
	PYTHONPATH=.venv/fuzz $(BIN)/python -m tests.fuzz --seconds $(SECONDS)

accuracy: setup  ## what the emulator makes of many channels beside what was asked: a table, a figure, one summary
	$(BIN)/python -m tests.accuracy

power: setup  ## whether certificates catch 20 channels that are just as wrong as stated, and pass 20 that are right
	$(BIN)/python -m tests.accuracy.power

clean:  ## remove the virtual environment; results and the cached kernel stay
	rm -rf .venv

.venv/.made: requirements.lock pyproject.toml
	@SUDO="$(SUDO)" .ci/debian-packages
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r .ci/installer.lock
	$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	touch $@

.venv/fuzz: .ci/fuzz.lock .venv/.made
	$(BIN)/uv pip install -q --python $(BIN)/python --target $@ --require-hashes -r $<
	touch $@
