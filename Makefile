# outlast: everything a developer does, as one word each. `make help` lists them.
# A fresh machine needs Python >= 3.11 (with venv), git and make; the first target that needs .venv makes it.

# The Python that makes .venv; by default python3, or the newest that is found (scripts/pythons.sh).
PYTHON ?=
# Passed on to pytest: make test-fast ARGS="tests/core -k loop"
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PEERS := .venv-peers
PIP := $(PY) -m pip -qq --disable-pip-version-check
LOCK := uv pip compile pyproject.toml --quiet --system-certs --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate

# What between them goes through the core.
CORE_TESTS := $(addprefix tests/,core authoring plans graphs waits children versions run verifying journals rounds payloads)

# No recipe runs beside another: they share .venv, and tests share two cores.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help setup pythons demo check format test test-fast coverage soak simulate mutate chaos bench build lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## a workflow that is killed, and goes on: the idea in a minute
	@$(PY) examples/demo/run.py

test: $(READY) pythons ## everything CI runs but the checks: all tests, slow ones too
	@$(PY) scripts/run_tests.py all $(ARGS)

test-fast: $(READY) ## the tests that take a second at most and start no process
	@$(PY) scripts/run_tests.py fast $(ARGS)

check: $(READY) ## format, lint, layers and types; quick, before every commit
	@$(PY) scripts/check.py

format: $(READY) ## lay the code out, and mend what the linter can mend
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

coverage: $(READY) ## which ways through the core no test goes, by branch; takes some minutes
	@$(PY) -m coverage run -m pytest -q -m "not soak and not process" $(CORE_TESTS) $(ARGS)
	@$(PY) -m coverage report

soak: $(READY) ## the long tests: crashes, simulations and leaks, for many minutes
	@$(PY) scripts/run_tests.py soak $(ARGS)

mutate: $(READY) ## deliberate faults in a copy of the source, and which test catches each
	@$(PY) -m tests.mutants $(ARGS)

chaos: $(READY) ## workers killed, frozen and cut off on PostgreSQL for ten minutes, and a report
	@$(PY) -m tests.chaos $(ARGS)

simulate: $(READY) ## random schedules of the engine, with faults: ARGS="--schedules 100000 --seed 7"
	@PYTHONPATH=. $(PY) -m tests.simulation.engine $(ARGS)

bench: $(READY) ## steps per second and latencies on this machine
	@$(PY) benchmarks/run.py $(ARGS)

bench-peers: $(READY) $(PEERS)/.ready ## the same beside DBOS and Absurd, on the same PostgreSQL and SQLite
	@$(PY) benchmarks/peers/run.py $(ARGS)

build: $(READY) ## the wheel, into dist/
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/outlast-*.whl

setup: $(READY) ## .venv with all that is pinned, and outlast itself, editable

pythons: $(READY) ## .venv-3.x for the other Pythons of this machine, where tests compare them
	@sh scripts/pythons.sh others

lock: $(READY) ## pin requirements/*.lock anew, at the newest versions that pyproject.toml allows
	@$(PIP) install "uv>=0.13"
	@$(PY) -m $(LOCK) --upgrade --output-file requirements/dev.lock --extra all --group dev
	@$(PY) -m $(LOCK) --constraint requirements/dev.lock --output-file requirements/run.lock
	@$(PY) -m $(subst pyproject.toml,requirements/peers.in,$(LOCK)) --upgrade --output-file requirements/peers.lock

clean: ## remove all that was made here, .venv too
	@rm -rf $(VENV) $(VENV)-3.* $(PEERS) .demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

# A .venv that runs is kept, so that this is quick; one that does not, or is too old, is made anew.
# The build backend is in the lock: nothing unpinned is fetched, and a second run needs no network.
$(READY): requirements/dev.lock pyproject.toml
	@if ! $(PY) -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		python="$(PYTHON)"; [ -n "$$python" ] || python=$$(sh scripts/pythons.sh best) || exit 1; \
		echo "Setting up $(VENV) with $$python; this takes a minute"; \
		rm -rf $(VENV) && "$$python" -m venv $(VENV); \
	fi
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# What outlast is measured beside, away from all that it needs itself.
$(PEERS)/.ready: requirements/peers.lock | $(READY)
	@echo "Setting up $(PEERS)"
	@rm -rf $(PEERS) && $(PY) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip -qq --disable-pip-version-check install --require-hashes -r requirements/peers.lock
	@touch $@
