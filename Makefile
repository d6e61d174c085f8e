# The commands for users and for CI. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= $(shell command -v /usr/bin/python3 || command -v python3)
BIN := .venv/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)
SWEEP ?= profiles/sweeps/demo.yaml
CONTESTANTS := pycfdp uftp# the third-party implementations of the demo
PART ?= all
SECONDS ?= 600
RESULTS ?= results/demo

.PHONY: help announce setup demo test test-packages tested-programs lint-and-unit unit programs system lab coverage lint lint-playbooks bench equality accuracy power validation third-party implementations-table fuzz clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: announce setup  ## install what is needed, run the demo sweep, print the path of the report
	@SUDO="$(SUDO)" $(BIN)/owlt third-party install $(CONTESTANTS)
	$(BIN)/owlt run $(SWEEP) || [ $$? -eq 3 ]  # 3: some runs did not complete, which is a result

announce:
	@.ci/announce

test: setup test-packages tested-programs  ## run all tests, as CI does
	@# those of lab rigs, which wait most of their time, run beside all others and are printed at the end
	@# (sh starts what runs beside it with SIGINT ignored, which tests of an interrupt and Ctrl-C would not survive)
	@lab=$$(mktemp); env --default-signal=INT,QUIT $(MAKE) --no-print-directory lab >$$lab 2>&1 & \
	$(MAKE) --no-print-directory lint-and-unit programs system; others=$$?; \
	wait $$!; in_lab=$$?; cat $$lab; rm $$lab; exit $$((others || in_lab))

lint-and-unit:  # side by side: mypy and ansible-lint use one core
	@$(MAKE) --no-print-directory -j 2 lint unit

test-packages:
	@SUDO="$(SUDO)" owlt/debian-packages --tests

tested-programs: setup
	-@SUDO="$(SUDO)" $(BIN)/owlt third-party install licklider pycfdp normcast uftp ngtcp2 socat iperf3

validation: setup  ## validate virtual time against real time and theory: make validation ARGUMENTS="--for '1 h'"
	$(BIN)/python -m tests.validation $(ARGUMENTS)

third-party: setup  ## install third-party implementations: make third-party IMPLEMENTATION=licklider, or all of them
	@SUDO="$(SUDO)" $(BIN)/owlt third-party install $(IMPLEMENTATION)

implementations-table: setup  ## try every installed implementation over three channels; the last line is a summary
	$(BIN)/owlt implementations table

setup: .venv/.made  ## install Debian packages, virtual environment, eBPF programs and virtual-time kernel
	@SUDO="$(SUDO)" owlt/debian-packages --clone
	@$(BIN)/owlt setup

unit: .venv/.made  ## unit tests: no root, no slow programs, about three minutes
	@$(BIN)/python -m owlt.emulator.kernel.bpf.compile
	$(BIN)/python -m pytest tests/unit -n 2 --dist loadfile

programs: .venv/.made  ## tests with real programs, no root: tshark reads captures, endpoints transfer over loopback; three at a time, since many of them wait
	$(BIN)/python -m pytest tests/programs -n 3 --dist loadfile

system: tested-programs  ## tests in guests: real netem, real sshd, real implementations; four at a time, since many of them wait
	$(BIN)/python -m pytest tests/system -n 4 --dist loadfile --no-loadscope-reorder

lab: setup  ## tests in namespaces of this machine's kernel, as root
	$(SUDO) env CI="$$CI" XDG_CACHE_HOME="$${XDG_CACHE_HOME:-$$HOME/.cache}" OWLT_RACK_ROOT="$${OWLT_RACK_ROOT:-/}" \
		PYTHONDONTWRITEBYTECODE=1 $(BIN)/python -m pytest tests/lab -n 2 -p no:cacheprovider

coverage: .venv/.made .venv/coverage  ## lines of orchestrator/ that its unit tests reach; fails below 80 %
	PYTHONPATH=.venv/coverage $(BIN)/python -m coverage run --source=orchestrator --data-file=.venv/coverage/data \
		-m pytest tests/unit/orchestrator tests/unit/kernel -q
	PYTHONPATH=.venv/coverage $(BIN)/python -m coverage report --data-file=.venv/coverage/data --skip-covered --fail-under=80

lint: .venv/.made lint-playbooks  ## run ruff, mypy and ansible-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy owlt

lint-playbooks: .venv/.made .venv/ansible-lint  ## run ansible-lint over playbooks/
	cd playbooks && PYTHONPATH="$(CURDIR)/.venv/ansible-lint" \
		PATH="$(CURDIR)/.venv/ansible-lint/bin:$(CURDIR)/$(BIN):$$PATH" \
		ANSIBLE_CONFIG=ansible.cfg ansible-lint --offline *.yml roles

bench: setup  ## measure costs, as ratios within one run: make bench PART=start|kernel|channel|demo|endpoints|packets|messages|disturbance|kills|lab|dashboard|report|sweep|system-calls
	$(BIN)/python -m tests.bench $(PART)

equality: setup  ## count the packets of every run again with tshark, and compare: make equality RESULTS=results/demo
	$(BIN)/python -m tests.equality $(RESULTS)

fuzz: .venv/.made  ## feed malformed input to every decoder and engine for ten minutes: make fuzz SECONDS=600
	-@$(MAKE) -s .venv/fuzz
	PYTHONPATH=.venv/fuzz $(BIN)/python -m tests.fuzz --seconds $(SECONDS)

accuracy: setup  ## measure many channels and compare them with their settings: a table, a figure, a summary
	$(BIN)/python -m tests.accuracy

power: setup  ## certify 20 channels that are wrong by the stated amounts and 20 correct ones, with many seeds
	$(BIN)/python -m tests.accuracy.power

clean:  ## remove the virtual environment, but not results or the cached kernel
	rm -rf .venv

.venv/.made: requirements.lock pyproject.toml
	@SUDO="$(SUDO)" owlt/debian-packages --clone
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r .ci/installer.lock
	$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	touch $@

.venv/coverage: .ci/coverage.lock .venv/.made
	$(BIN)/uv pip install -q --python $(BIN)/python --target $@ --require-hashes -r $<
	touch $@

.venv/ansible-lint: .ci/ansible-lint.lock .venv/.made
	$(BIN)/uv pip install -q --python $(BIN)/python --target $@ --require-hashes -r $<
	touch $@

.venv/fuzz: .ci/fuzz.lock .venv/.made
	$(BIN)/uv pip install -q --python $(BIN)/python --target $@ --require-hashes -r $<
	touch $@
