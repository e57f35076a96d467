# Every target makes its own virtual environment; nothing is installed outside .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
# Tools of a release and of the pages, apart from those of the tests.
PUBLISHING := .venv-publish
PUBLISH := $(PUBLISHING)/.publish
PYTEST := $(BIN)/python -m pytest
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check
# Hundreds of processes of the tests would compile the same modules, each for itself.
unexport PYTHONDONTWRITEBYTECODE
OLDEST := $(addprefix tests/e2e/kubernetes/test_,chart.py hypernodes.py policy.py worker_identity.py) \
	tests/e2e/scheduling/test_whole_fit.py
E2E := tests/e2e tests/helm tests/image tests/page
# The files of the long suites: to collect the others, nine of ten, costs each process seconds.
LONG = $(E2E) $$(grep -rlE 'mark\.(slow|e2e)\b' tests --include='test_*.py')
PAGE := tests/page
SUITE := -n 2 --dist worksteal -m "not slow and not deep and not e2e"
# What a lock brings, for who waits; measured on two cores.
WHAT_requirements-run.lock := what runs, 260 MB, a minute the first time
WHAT_requirements.lock := what runs, its tests and their tools, 740 MB, up to four minutes the first time
WHAT_requirements-publish.lock := what makes releases and the pages, 220 MB, a minute the first time
EXTRAS := --extra cli --extra master --extra sim --extra worker

.DEFAULT_GOAL := help
.PHONY: help install run test floors test-slow test-deep e2e e2e-oldest cluster tour e2e-random e2e-fits e2e-kueue e2e-labels e2e-switch e2e-kinds e2e-provisioning fuzz hostile mutated chaos chaos-elected oracle coverage lint page format docs dashboards pictures bench bench-page bench-kube bench-schedule image site release lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# What the product needs, and what its tests need besides. The locks pin the same versions.
$(RUNTIME): requirements-run.lock pyproject.toml
	@$(MAKE) --no-print-directory install LOCK=requirements-run.lock DONE=$(RUNTIME) ASKED="$(MAKECMDGOALS)"

$(STAMP): requirements.lock requirements-run.lock pyproject.toml
	@$(MAKE) --no-print-directory install LOCK=requirements.lock DONE=$(STAMP) ASKED="$(MAKECMDGOALS)"
	@touch $(RUNTIME)

$(PUBLISH): requirements-publish.lock pyproject.toml
	@$(MAKE) --no-print-directory install VENV=$(PUBLISHING) LOCK=requirements-publish.lock DONE=$(PUBLISH) ASKED="$(MAKECMDGOALS)"

# A lock names all that is needed, so pip resolves nothing: a release of today is not looked at, and
# `pip check` finds what a lock lacks.
# Under a lock: of two makes at once, the second finds the work done. What runs from .venv goes on.
install: LOCK ?= requirements.lock
install: DONE ?= $(STAMP)
install:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Try: make PYTHON=python3.12 $(ASKED)"; exit 2; }
	@mkdir -p $(VENV); exec 9<$(VENV); flock 9; \
	if [ $(DONE) -nt $(LOCK) ] && [ $(DONE) -nt pyproject.toml ]; then exit 0; fi; \
	set -e; echo "Installing into $(VENV): $(WHAT_$(LOCK)), of $(LOCK)"; \
	[ -x $(BIN)/pip ] || $(PYTHON) -m venv $(VENV); \
	$(PIP) --require-hashes --no-deps -r $(LOCK); \
	$(PIP) --no-deps --no-build-isolation -e .; \
	broken=$$($(BIN)/python -m pip check) || { echo "$$broken"; exit 1; }; \
	touch $(DONE)

run: WORLD ?= demo
run: $(RUNTIME) ## a simulated supernode cluster on this machine: WORLD=8x32x2 has 512 nodes, WORLD=100x50x2 10,000
	@$(BIN)/topo demo --world $(WORLD)

# Each core begins at one end of the folders, and the tests of a file share what the file sets up.
# Untraced: with Python 3.11 tracing doubles the processor time of the suite.
test: $(STAMP) ## the test suite, on both cores
	$(PYTEST) $(SUITE) $(if $(TRACED),--cov --cov-report=)

coverage: ## the same suite, traced but for files of many examples, with its coverage floors
	@$(MAKE) --no-print-directory test TRACED=yes
	@$(MAKE) --no-print-directory floors

# Of the suite that ran traced last.
floors: $(STAMP)
	$(BIN)/python -m coverage report --include='topo/*' --fail-under=95
	$(BIN)/python -m coverage report --include='master/*,worker/*' --fail-under=90

# Three at a time: a third of their time they wait for other processes.
test-slow: $(STAMP) $(PUBLISH) ## the suites that take minutes
	$(PYTEST) -n 3 --dist loadfile -m "slow and not deep" $(LONG)

# A property that the other suites hold for some cases, for so many that nobody waits for them.
test-deep: $(STAMP) ## what `make test` and `make test-slow` hold, over far more cases; a quarter of an hour
	$(PYTEST) -n 2 -m deep

# Clusters of the tests live for minutes: their programs, of Go, look for garbage a quarter as often. A control
# plane then starts with a quarter less of processor time, in 110 MB more.
ON_CLUSTERS := GOGC=400 $(PYTEST)
BUILT_PROGRAMS := if command -v go >/dev/null; then $(BIN)/python -m tests.e2e.controlplane.programs; fi

# Four at a time: half of their time they wait for programs of others. A folder with a
# control plane of its own stays with one of them (tests/conftest.py).
e2e: $(STAMP) $(PUBLISH) ## on the real API server, scheduler, helm and Chromium; needs Go, at first 10 minutes
	@$(BUILT_PROGRAMS)
	$(ON_CLUSTERS) -m "e2e and not deep" -n 4 --dist loadfile --no-loadscope-reorder $(E2E)

# Four at a time left a quarter of two cores idle: the demos run one at a time, and others wait for leases.
test-long: $(STAMP) $(PUBLISH) ## test-slow and e2e in one run, which takes less than one after the other
	@$(BUILT_PROGRAMS)
	$(ON_CLUSTERS) -m "(slow or e2e) and not deep" -n 6 --dist loadfile --no-loadscope-reorder $(LONG)

e2e-oldest: $(STAMP) ## a part of e2e on the oldest Kubernetes that the chart takes; needs Go, at first 5 minutes
	@if command -v go >/dev/null; then TOPO_E2E_KUBERNETES=oldest $(BIN)/python -m tests.e2e.controlplane.programs; fi
	TOPO_E2E_KUBERNETES=oldest $(ON_CLUSTERS) -m "e2e and not deep" -k "not (whole_fit and volcano)" $(OLDEST)

# The harness needs no more than the product does, so that trying it installs no tools of tests.
cluster: $(RUNTIME) ## a real control plane with the chart installed, to try kubectl on; needs Go
	@$(BIN)/python -m tests.e2e.controlplane

e2e-random: JOBS ?= 200
e2e-random: NODES ?= 64
e2e-random: SEED ?= 1
e2e-random: SCHEDULER ?= volcano
e2e-random: AWAY_S ?= 60
e2e-random: KILLS ?=
e2e-random: TENANT ?= 1
e2e-random: $(STAMP) ## jobs at random on a stock scheduler beside a hostile tenant (without one: TENANT=), judged: JOBS=200 NODES=64 SCHEDULER=volcano|kube|kube-podgroup, no API server and later no master for AWAY_S=60, or two that are killed by turns with KILLS=1; needs Go
	$(BIN)/python -m tests.e2e.scheduling.random_jobs --jobs $(JOBS) --nodes $(NODES) --seed $(SEED) --scheduler $(SCHEDULER) --away-s $(AWAY_S) $(if $(KILLS),--kills) $(if $(TENANT),,--no-tenant)

e2e-fits: ROUNDS ?= 32
e2e-fits: SEED ?= 1
e2e-fits: GANGS ?= 13
e2e-fits: $(STAMP) ## random pods on 64 random nodes, our count beside kube-scheduler's verdict: ROUNDS=32; random gangs: GANGS=13 rounds of 40; needs Go
	$(BIN)/python -m tests.e2e.scheduling.fit_pairs --rounds $(ROUNDS) --seed $(SEED)
	$(BIN)/python -m tests.e2e.scheduling.fit_gangs --rounds $(GANGS) --seed $(SEED)

e2e-kueue: JOBS ?= 300
e2e-kueue: NODES ?= 64
e2e-kueue: SEED ?= 1
e2e-kueue: WAYS ?= ours,held,kueue's
e2e-kueue: $(STAMP) ## the same random workloads in two queues of stock Kueue, by nomination, held before quota, and by its own topologies, judged: JOBS=300 NODES=64 WAYS=held; needs Go
	$(BIN)/python -m tests.e2e.kueue.random_workloads --jobs $(JOBS) --nodes $(NODES) --seed $(SEED) --ways "$(WAYS)"

e2e-labels: $(STAMP) ## labels that change under 200 running jobs: each version of the HyperNodes is judged; needs Go
	$(BIN)/python -m tests.e2e.scheduling.relabelled

e2e-switch: $(STAMP) ## a switch dies under 200 running jobs and comes back, the vendor's, then an InfiniBand leaf: 15 minutes; needs Go
	$(BIN)/python -m tests.e2e.scheduling.switch_dies

e2e-kinds: KINDS ?=
e2e-kinds: SCHEDULERS ?=
e2e-kinds: $(STAMP) ## each kind of job by each scheduler through its life, on two masters: KINDS=jobset,deployment SCHEDULERS=kube,kueue-held; needs Go, at first 15 minutes
	$(BIN)/python -m tests.e2e.jobkinds.matrix --kinds "$(KINDS)" --schedulers "$(SCHEDULERS)"

e2e-provisioning: ROUNDS ?= 1
e2e-provisioning: $(STAMP) ## requests for capacity whose leading master is killed at each of its writes: ROUNDS=1; needs Go
	$(BIN)/python -m tests.e2e.provisioning.lives --rounds $(ROUNDS)

tour: $(RUNTIME) ## the same job on stock Volcano, without whole groups and with; needs Go
	@$(BIN)/python -m tests.e2e.scheduling.tour

fuzz: MINUTES ?= 10
fuzz: $(STAMP) ## the property tests with fresh examples, for MINUTES=10
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

hostile: LIVES ?= 20000
hostile: SEED ?= 0
hostile: OF ?= machine whole extender second
hostile: $(STAMP) ## a hostile tenant in random lives of the machine and of all that reads pods: LIVES=20000 SEED=0 OF=whole; an hour and more
	for of in $(OF); do $(BIN)/python -m tests.tenancy.lives --of $$of --lives $(LIVES) --seed $(SEED) || exit 1; done

mutated: OBJECTS ?= 1000000
mutated: SEED ?= 0
mutated: $(STAMP) ## mutated pods, jobs, groups and requests through every door of a master: OBJECTS=1000000 SEED=0; an hour and more
	$(BIN)/python -m tests.mutated.rounds --objects $(OBJECTS) --seed $(SEED)

chaos: MINUTES ?= 5
chaos: SEED ?= 1
chaos: $(STAMP) ## faults at random on a real cluster, judged by a model: MINUTES=5 SEED=1
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) --seed $(SEED)

chaos-elected: MINUTES ?= 5
chaos-elected: SEED ?= 1
chaos-elected: $(STAMP) ## two elected masters under faults on a real API server: MINUTES=5 SEED=1; needs Go
	$(BIN)/python -m tests.e2e.elected.run --minutes $(MINUTES) --seed $(SEED)

oracle: $(STAMP) ## placements beside the best that CP-SAT finds: 400 + 400 instances
	$(PYTEST) -n 2 -m deep -rP tests/placement/test_oracle.py

# Two minutes of a core: in CI beside tests of services, which it gives way to.
lint: $(STAMP) page ## ruff, mypy strict, the layer contracts, the page's types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	nice $(BIN)/mypy
	$(BIN)/lint-imports

page: $(PAGE)/node_modules ## types and layout of the page in master/web/page; needs npm
	npm --prefix $(PAGE) run --silent check

$(PAGE)/node_modules: $(PAGE)/package-lock.json
	@command -v npm >/dev/null || { echo "npm is needed to check the page: apt-get install npm"; exit 2; }
	npm --prefix $(PAGE) ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

format: $(STAMP) $(PAGE)/node_modules ## let ruff and prettier rewrite the layout
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	npm --prefix $(PAGE) run --silent format

docs: $(STAMP) ## what follows from the code: tables of the docs, the chart's settings, the page's types
	@$(BIN)/python -m docs.tables
	@$(BIN)/python -m tests.page.api_types

dashboards: $(STAMP) ## the chart's Grafana dashboards and alerts, from monitoring/
	@$(BIN)/python -m monitoring

pictures: $(STAMP) ## those of the README and docs, from a demo with a cut cable; needs chromium
	$(BIN)/python -m tests.page.pictures

bench: $(STAMP) ## figures beside their budgets, into bench/results.json
	$(BIN)/python -m bench

bench-page: $(STAMP) ## the page over 10,000 nodes in Chromium; needs chromium
	$(BIN)/python -m bench page

bench-kube: $(STAMP) ## the same beside a real API server, 1,000 and 10,000 nodes; needs Go
	$(BIN)/python -m bench kube

bench-schedule: NODES ?= 1000 5000
bench-schedule: $(STAMP) ## jobs on stock schedulers, until bound, with us and without: NODES="1000 5000"; needs Go
	$(BIN)/python -m bench $(addprefix schedule-,$(NODES)) $(addprefix podgroups-,$(NODES))

image: ## the images topo-master, topo-worker and topo-sweeper, with buildah: BASE=image TAG=tag PLATFORM=linux/arm64
	@BASE="$(BASE)" TAG="$(TAG)" PLATFORM="$(PLATFORM)" packaging/build-images

site: $(PUBLISH) ## the pages of docs/ with search, into build/site; ends at a broken link
	@$(PUBLISHING)/bin/python docs/site/build.py build/site

release: $(PUBLISH) ## all of one version into dist/: BASE=image@sha256:… (BASE=none: no images)
	@$(PUBLISHING)/bin/python packaging/release.py --base "$(BASE)"

lock: $(STAMP) ## pin every dependency with its hashes: of what runs, and of everything
	$(BIN)/pip-compile $(EXTRAS) --extra dev -o requirements.lock pyproject.toml
	$(BIN)/pip-compile $(EXTRAS) -c requirements.lock -o requirements-run.lock pyproject.toml
	$(BIN)/pip-compile --extra publish -c requirements.lock -o requirements-publish.lock pyproject.toml

clean: ## remove what the targets made
	rm -rf $(VENV) $(PUBLISHING) $(PAGE)/node_modules .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
