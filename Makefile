# Two targets are all a newcomer needs: `make run` and `make test`. While code changes: `make check`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run verified hashes check test hosted postgres synapse lint docs coverage soak bench clean

# 114 and 128 do not know a task_status that is handed on, 124 no interface that asks for an async
# function; 9xx are the optional ones about checkpoints.
FLAKE8_ASYNC := $(BIN)/flake8-async --disable ASYNC114,ASYNC124,ASYNC128,ASYNC9
ASYNC_FILES := $(wildcard $(shell git ls-files --cached --others --exclude-standard \
	'hermes_trio/*.py' 'platforms/*.py' 'bench/*.py'))

# Tests without a real process, browser or clock.
QUICK := not soak and not real and not slow
HOSTED := tests/cases tests/gateway/resuming tests/gateway/stopping/test_stopping.py

# Many tests wait for processes, sockets or a browser, so two workers share a processor.
WORKERS := $(shell echo $$(( 2 * $$(getconf _NPROCESSORS_ONLN) )))

run: .venv/runs
	$(BIN)/hermes-trio chat

# Install what `make run` needs from files with the hashes in hashes.txt only; any other file is refused.
verified:
	$(PYTHON) -m venv .venv
	$(PIP) install --require-hashes -r hashes.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	touch .venv/runs

# Write hashes.txt, after a change of constraints.txt or of what the gateway requires. Minutes; needs an index.
hashes: .venv/runs
	$(BIN)/python .ci/hashes.py > hashes.new
	mv hashes.new hashes.txt

# The quick lane, for each change: all the linters, and the tests that need no real process, browser or clock.
check: lint
	$(BIN)/python -m pytest -q -m "$(QUICK)" -n $(WORKERS) --dist worksteal

# Neighbours stay with one worker until another is idle: fewer browsers and gateways are started for a module.
test: .venv/tests
	$(BIN)/python -m pytest -m "not soak" -n $(WORKERS) --dist worksteal

# The named cases of stopping and resuming with Trio as a guest of other loops, as an embedding program has it.
hosted: .venv/tests
	$(BIN)/python -m pytest -q -m "$(QUICK)" --host asyncio -n $(WORKERS) $(HOSTED)
	$(BIN)/python -m pytest -q -m "$(QUICK)" --host uvloop -n $(WORKERS) tests/cases

# The laws of the store on its second engine, and stories of gateways; skipped where PostgreSQL is not installed.
postgres: .venv/tests
	$(BIN)/python -m pytest -m "not soak" --engine postgres -n $(WORKERS) tests/state tests/journal \
		tests/gateway/nodes/test_two_gateways.py tests/gateway/nodes/test_dying_engine.py \
		tests/gateway/faults/test_lost_connections.py

# The adapter of Matrix with a real home server, Synapse, in an environment of its own.
synapse: .venv/tests .venv/synapse
	SYNAPSE_PYTHON=$(CURDIR)/.venv/synapse/bin/python $(BIN)/python -m pytest -q tests/platforms/matrix/test_synapse.py

.venv/synapse:
	$(PYTHON) -m venv .venv/synapse
	.venv/synapse/bin/python -m pip --disable-pip-version-check --quiet install 'matrix-synapse>=1.163,<2'

lint: .venv/tests .venv/flake8-async
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The pages into site/, from docs/. A broken link or a made page that differs from the code fails.
docs: .venv/tests .venv/docs
	$(BIN)/python docs/made.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# flake8-async needs a minute for all files, so it reads those that have changed since it was content; all of
# them after a change of its version or its options. It looks at each file by itself.
.venv/flake8-async: $(ASYNC_FILES) Makefile .venv/tests
	@printf '%s\n' $(if $(filter-out %.py,$?),$(ASYNC_FILES),$?) | xargs -P 2 -n 30 $(FLAKE8_ASYNC)
	touch $@

# How much of the code the tests run, with branches and with our child processes, except those that are killed
# and the sweep, which loads no site packages. `make coverage TESTS=tests/journal` measures a part. The figure
# is printed and is in coverage.json; htmlcov has the lines.
coverage: .venv/tests
	$(BIN)/python -m pytest -m "not soak" -n $(WORKERS) --dist worksteal \
		--cov --cov-report=term:skip-covered --cov-report=json --cov-report=html $(TESTS)

# The long lane: kill storms and full benchmarks. Minutes to an hour, for a quiet machine.
soak: .venv/tests
	$(BIN)/python -m pytest -m soak --timeout 7200
	$(BIN)/python -m pytest -q -m "$(QUICK)" --hypothesis-profile chance -n $(WORKERS)
	$(BIN)/python -m pytest -m "not soak" --host asyncio -n $(WORKERS) tests/cases tests/gateway tests/journal tests/web
	$(BIN)/python -m pytest -m "not soak" --host uvloop -n $(WORKERS) tests/cases tests/gateway
	$(BIN)/python -m pytest -m soak --host asyncio tests/gateway/chance
	$(BIN)/python -m pytest -m "not soak and not slow and not real" --engine postgres -n $(WORKERS) \
		tests/cases tests/gateway
	$(MAKE) bench

bench: .venv/tests
	$(BIN)/python -m bench all

.venv/runs: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e .
	touch $@

# The platform of the tests that a gateway in a process of its own can name comes as a package, as any other does.
.venv/tests: pyproject.toml constraints.txt tests/loopback_package/pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e '.[dev]' ./tests/loopback_package
	touch .venv/runs $@

.venv/docs: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt -e '.[docs]'
	touch .venv/runs $@

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* coverage.json htmlcov
