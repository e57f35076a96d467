# Every target makes its own virtual environment; nothing is installed outside .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help install run test test-slow fuzz oracle coverage lint format bench lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@mkdir -p $(VENV)
	@flock $(VENV) $(MAKE) --no-print-directory install

# Under the lock: of two makes at once, the second finds the work done. What runs from .venv goes on.
install:
	@if [ $(STAMP) -nt requirements.lock ] && [ $(STAMP) -nt pyproject.toml ]; then exit 0; fi; \
	set -e; echo "Installing into $(VENV) (the first time takes about a minute)"; \
	[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV); \
	$(PIP) --require-hashes -r requirements.lock; \
	$(PIP) --no-deps --no-build-isolation -e .; \
	touch $(STAMP)

run: $(STAMP) ## a simulated supernode cluster on this machine
	@$(BIN)/topo demo

test: $(STAMP) ## the test suite, on both cores, with its coverage floor
	$(PYTEST) -n 2 -m "not slow and not oracle" --cov --cov-report=
	@$(MAKE) --no-print-directory coverage

test-slow: $(STAMP) ## the suites that take minutes
	$(PYTEST) -m slow

fuzz: MINUTES ?= 10
fuzz: $(STAMP) ## the property tests with fresh examples, for MINUTES=10
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

oracle: $(STAMP) ## placements beside the best that CP-SAT finds: 400 + 400 instances
	$(PYTEST) -n 2 -m oracle -rP

coverage: $(STAMP)
	@$(BIN)/python -m coverage combine -q --append 2>/dev/null || true
	$(BIN)/python -m coverage report --include='topo/*' --fail-under=95
	$(BIN)/python -m coverage report --include='master/*,worker/*' --fail-under=90

lint: $(STAMP) ## ruff, mypy strict, the layer contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## let ruff rewrite the layout
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## figures beside their budgets, into bench/results.json
	$(BIN)/python -m bench

lock: $(STAMP) ## pin every dependency with its hashes
	$(BIN)/pip-compile -q --generate-hashes --strip-extras --all-build-deps --allow-unsafe --extra dev \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links -o requirements.lock pyproject.toml

clean: ## remove what the targets made
	rm -rf $(VENV) .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
