# Everything from a clone, on a machine with Python 3.11 or later and make: `make test`, `make demo`.

PYTHON ?= python3
AIRFLOW ?= 3.3
UNIT ?= tests/unit
E2E ?= tests/e2e
DIST ?= dist
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BENCH := .venv-bench
BENCH_INSTALLED := $(BENCH)/.installed
LOWEST := .matrix/lowest
LOWEST_INSTALLED := $(LOWEST)/.installed
SBOM := .venv-sbom

# Whatever imports Airflow here keeps away from the user's own.
export AIRFLOW_HOME := $(CURDIR)/$(VENV)/airflow
# Hundreds of processes import the same modules: bytecode is written even where the environment says not to.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup test check-format format lint types imports unit unit-slow coverage e2e nightly system test-matrix test-lowest crash-test soak mutations simulate bench
.PHONY: demo docs screenshots structure dist sbom evidence release clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## Install everything, pinned, into .venv (PYTHON=... chooses the interpreter)

# Beside what is measured stand packages whose needs differ from ours: an environment and pins of their own.
$(INSTALLED): EXTRA := dev
$(INSTALLED): PINS := constraints/airflow-$(AIRFLOW)
$(BENCH_INSTALLED): EXTRA := bench
$(BENCH_INSTALLED): PINS := constraints/bench-3.3
$(LOWEST_INSTALLED): EXTRA := common-messaging,emulator,openlineage,opentelemetry,s3
$(LOWEST_INSTALLED): PINS := constraints/lowest

# Again only when what is to be installed has changed. The build backend is installed first, and
# pinned too: pip's own isolated build would fetch whichever is newest.
$(INSTALLED) $(BENCH_INSTALLED) $(LOWEST_INSTALLED): pyproject.toml $(wildcard constraints/*.txt)
	@command -v $(PYTHON) > /dev/null || { \
		echo "There is no $(PYTHON) here. Install Python 3.11 or later, or name it: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or later is needed, and this is $$($(PYTHON) --version). Name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { \
		echo "$(PYTHON) lacks the venv module. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(@D)
	@install="$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --constraint $(PINS).txt"; \
	set -x; $$install hatchling hatch-fancy-pypi-readme editables && \
	$$install --no-build-isolation --editable '.[$(EXTRA)]'
	@touch $@

test: setup check-format lint types imports docs unit unit-slow e2e ## Check everything: format, lint, types, imports, docs, unit, unit-slow, e2e

check-format: setup
	$(BIN)/ruff format --check .

format: setup ## Format the code
	$(BIN)/ruff format .

lint: setup ## Look for mistakes and bad style
	$(BIN)/ruff check .

# The examples as users' editors do: mypy is not strict there. pyright needs Node. On a machine without it, Node comes from
# the package index (200 MB): pyright itself would download it from elsewhere.
types: setup ## Check the types of the package with mypy, and of the examples with mypy and pyright
	@command -v node > /dev/null || $(BIN)/python -m pip --disable-pip-version-check install --quiet \
		--constraint constraints/airflow-$(AIRFLOW).txt 'pyright[nodejs]'
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python & pyright=$$!; $(BIN)/mypy && \
		MYPYPATH=dags_examples:docs/examples/testing/dags $(BIN)/mypy --config-file= --cache-dir=.mypy_cache/examples \
		--check-untyped-defs --explicit-package-bases dags_examples docs/examples; mypy=$$?; wait $$pyright && exit $$mypy

imports: setup ## Check who imports whom
	$(BIN)/lint-imports

# What `unit` leaves out, unless this is empty, starts processes, waits for real limits of time, tries many inputs, or tests a program.
QUICK_ONES := not slow and not program

unit: setup ## Run the quick unit tests, in WORKERS=2 processes (0: in one)
	$(BIN)/python -m pytest $(UNIT) -m "$(QUICK_ONES)" --numprocesses $(WORKERS) --dist loadfile

unit-slow: setup ## Run the other unit tests: of processes, many inputs, and programs
	$(BIN)/python -m pytest $(UNIT) -m "not ($(QUICK_ONES))" --numprocesses $(WORKERS) --dist loadfile

# Beside `unit`, as it is slower: before Python 3.12 there is no sys.monitoring, and all is traced.
coverage: setup ## Run the unit tests, and show which lines of the package no test runs
	COVERAGE_CORE=$$($(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")') \
		$(BIN)/python -m pytest $(UNIT) --numprocesses $(WORKERS) --dist loadfile --cov --cov-report=term-missing

# Each process has an Airflow of its own, and takes the next file when it is done with one.
IN_PROCESSES = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# Kills and restarts mostly wait: while some do, others use the CPUs.
e2e: WORKERS := 3
e2e: setup ## Run the end-to-end tests, with a real Airflow, in WORKERS=3 processes (0: in one)
	$(BIN)/python -m pytest $(E2E) -m "not nightly" $(IN_PROCESSES) --durations=50

# Random kills, growth of memory, logs at DEBUG, pictures, pages of docs: what takes minutes, and a change seldom breaks.
nightly: setup ## Run the end-to-end tests that take minutes: kills, soak, tutorial, pictures
	$(BIN)/python -m pytest $(E2E) -m nightly $(IN_PROCESSES) --durations=0

# Without credentials in the environment they are skipped, and say so.
system: setup ## Run the examples with a real service, whose credentials the environment has (CONTRIBUTING.md)
	$(BIN)/python -m pytest tests/system

# For each Airflow its oldest and newest Python, and each Python at least once. Airflow 3.4 is a pre-release: 3.4.0b2. What
# stands here is claimed, so it has been tried: Python 3.14 has not, and `MATRIX="3.3:3.14 3.4:3.14"` tries it.
MATRIX ?= 3.2:3.11 3.2:3.13 3.3:3.11 3.3:3.12 3.3:3.13 3.4:3.11 3.4:3.13
# The wheel with the first DAG of the README, the listener, what only the newest Airflow has, and the page in a browser.
MATRIX_E2E := tests/e2e/test_distribution.py tests/e2e/test_listener.py tests/e2e/test_queues_of_triggerers.py tests/e2e/test_traces.py tests/e2e/page

# Each pair has an environment of its own. A Python that is not installed, or only stood in for, is reported as not tried.
test-matrix: setup ## Test on each supported Airflow and Python (MATRIX="3.2:3.11 3.3:3.13" chooses)
	@passed=; failed=; absent=; for pair in $(MATRIX); do \
		airflow=$${pair%:*}; python=python$${pair#*:}; \
		$$python --version > /dev/null 2>&1 || { absent="$$absent $$pair"; continue; }; \
		pins="AIRFLOW=$$airflow PYTHON=$$python VENV=.matrix/airflow-$$airflow-$$python"; \
		echo "== Airflow $$airflow, $$python"; \
		if $(MAKE) $$pins unit QUICK_ONES= && $(MAKE) $$pins e2e E2E="$(MATRIX_E2E)"; \
			then passed="$$passed $$pair"; else failed="$$failed $$pair"; fi; \
	done; echo "Passed:$${passed:- none}. Failed:$${failed:- none}. Not tried, as there is no such Python here:$${absent:- none}."; \
	test -n "$$passed" -a -z "$$failed"

test-lowest: $(LOWEST_INSTALLED) ## Import every module with the lowest versions of all dependencies (PYTHON=python3.11)
	AIRFLOW_HOME=$(CURDIR)/$(LOWEST)/airflow $(LOWEST)/bin/python -W ignore -m tools.imports

crash-test: setup ## Kill everything while messages come, and count (MESSAGES=300 MINUTES=4 KILLS=n SEED=n INBOXES=name MEMORY=MB SIZE=bytes KILLERS=1 STORE=disk|s3 OUTAGE=minutes DOCUMENTS=bytes-bytes CALM=1)
	$(BIN)/python -m tests.crash

soak: setup ## Let everything run for long, and see whether anything grows (MINUTES=30 RATE=1)
	$(BIN)/python -m tests.soak

mutations: setup ## Seed faults into copies, and see that the unit tests notice them (ONLY="words of a name", ALL_TESTS=1)
	$(BIN)/python -m tests.mutations --workers $(WORKERS) $(if $(filter 1,$(ALL_TESTS)),--all-tests) $(if $(ONLY),"$(ONLY)")

simulate: SEEDS ?= 100000
simulate: setup ## Play whole histories, each from a seed (SEEDS=100000 SEED=first WORKERS=2 HISTORY=1)
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --workers $(WORKERS) $(addprefix --seed ,$(SEED)) \
		$(if $(filter 1,$(HISTORY)),--history)

bench: $(BENCH_INSTALLED) ## Run the benchmarks, with other providers for comparison (ONLY=name, ONLY=scale; QUICK=1 to see that it works)
	AIRFLOW_HOME=$(CURDIR)/$(BENCH)/airflow $(BENCH)/bin/python -m benchmarks \
		$(addprefix --only ,$(ONLY)) $(addprefix --sizes ,$(SIZES)) $(addprefix --messages ,$(MESSAGES)) \
		$(addprefix --json ,$(JSON)) $(addprefix --plots ,$(PLOTS)) $(if $(filter 1,$(QUICK)),--quick)

demo: setup ## Show messages becoming DAG runs (CHAOS=1 kills processes meanwhile, ONCE=1 ends by itself)
	$(BIN)/python -m tools.demo $(if $(filter 1,$(CHAOS)),--chaos) $(if $(filter 1,$(ONCE)),--once)

# A search has to find words, and a machine each page that llms.txt lists.
docs: setup ## Check the spelling, and build the documentation into build/docs; a warning is an error
	$(BIN)/codespell *.md docs dags_examples airflow_provider_workflow
	$(BIN)/python -m sphinx --fail-on-warning --fresh-env --nitpicky --quiet \
		--doctree-dir build/doctrees docs build/docs
	grep --quiet quarantin build/docs/searchindex.js
	grep --quiet '](sensor.md)' build/docs/llms.txt
	cd build/docs && ls $$(grep -o '[a-z/-]*\.md' llms.txt) > /dev/null

screenshots: setup ## Take the pictures of the documentation anew, in Chromium (TO=directory)
	$(BIN)/python -m tools.screenshots $(addprefix --to ,$(TO))

structure: setup ## Measure the structure of the package (LIST=1 names what was counted)
	$(BIN)/python -m tools.structure $(if $(filter 1,$(LIST)),--list)

# Without isolation: the backend is the pinned one. With the time of the commit, each build of it is the same.
dist: setup ## Build sdist and wheel into DIST=dist, and check what a package index would
	rm -rf $(DIST)
	if epoch=$$(git log -1 --format=%ct 2> /dev/null); then export SOURCE_DATE_EPOCH=$$epoch; fi; \
		$(BIN)/python -m hatchling build --directory $(DIST)
	$(BIN)/python -m twine check --strict $(DIST)/*

# The tool that writes the SBOM needs packages of its own: an environment and pins for it, as for `bench`. It lists what
# the sdist is tested with: another environment, with the pins.
$(SBOM)/.installed: constraints/sbom.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --constraint $< cyclonedx-bom
	@touch $@

sbom: $(SBOM)/.installed ## Write the SBOM of the sdist in DIST=dist, with all that it is tested with (CycloneDX)
	$(PYTHON) -m venv --clear $(SBOM)/tested
	$(SBOM)/tested/bin/python -m pip --disable-pip-version-check install --quiet \
		--constraint constraints/airflow-$(AIRFLOW).txt $(DIST)/*.tar.gz
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(SBOM)/bin/cyclonedx-py environment --pyproject pyproject.toml \
		--mc-type library --output-reproducible --output-file $(DIST)/sbom.cdx.json $(SBOM)/tested/bin/python

evidence: setup ## Measure all that a release needs, in hours: docs/evidence.md (ONLY="words" measures these again)
	$(BIN)/python -m tools.evidence $(ONLY)

release: setup $(SBOM)/.installed ## Prepare the release VERSION=x.y.z in this repository, and its SBOM; no remote is changed
	$(BIN)/python -m tools.release $(VERSION) --to $(DIST)
	$(MAKE) sbom

clean: ## Remove what the others left, except .venv, .venv-bench and .venv-sbom
	rm -rf .bench .coverage .demo .matrix .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache \
		build dist *.egg-info
	find . -name __pycache__ -not -path './$(VENV)*/*' -prune -exec rm -rf {} +
