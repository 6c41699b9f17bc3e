# Rota's commands. `make` lists them; each sets itself up on a machine with nothing but Python 3.11+.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOCKED := $(VENV)/.locked
STAMP  := $(VENV)/.installed
PAGES  := dashboard/.built

.DEFAULT_GOAL := help

help: ## List these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

# From nothing: what an older lock or pyproject.toml has installed would stay, and be loaded by pytest and others as a plugin.
$(LOCKED): requirements/dev.lock
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

$(STAMP): $(LOCKED) pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP) ## Make the virtualenv with the locked dependencies

$(PAGES): $(STAMP) $(shell find dashboard -path dashboard/node_modules -prune -o -type f ! -name .built -print)
	$(BIN)/python hatch_build.py
	@touch $@

dashboard: $(PAGES) ## Build the dashboard into the package, if its source has changed; no Node is needed

schema: $(STAMP) ## Write the dashboard's types of the API anew, from the server's own document
	$(BIN)/python -m tests.dashboard.schema

run: $(STAMP) $(PAGES) ## Start PostgreSQL, workers, a server and a demo application, with a live view and a link to sign in
	$(BIN)/rota demo

browser: $(STAMP) ## Install Chromium, which tests of the dashboard use: from Debian as root, else what Playwright downloads
	$(BIN)/python -m tests.support.programs chromium

screenshots: $(STAMP) $(PAGES) browser ## Take pictures of every page of the dashboard, light and dark, for the documentation
	$(BIN)/python -m tests.browser.screenshots

test: $(STAMP) $(PAGES) ## Run the whole suite, in parallel and in random order
	@$(BIN)/python -m tests.support.programs --or-skip chromium
	$(BIN)/pytest -p no:schemathesis -n auto --dist worksteal $(ARGS)

packages: $(STAMP) $(PAGES) ## Build sdist and wheel into dist, install each in a fresh environment and use it
	$(BIN)/python -m tests.packages --keep dist

check: $(STAMP) $(PAGES) ## Lint, types, the import contract, and whether sdist and wheel install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.packages

format: $(STAMP) ## Format the code and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Measure Rota against a bare SQL loop and its peers (about an hour; ARGS="--quick" for ten minutes)
	$(BIN)/python -m bench $(ARGS)

chaos: $(STAMP) ## 20,000 jobs under kills, restarts and cut connections, judged from outside (ARGS="--seed 7")
	$(BIN)/python -m tests.chaos $(ARGS)

chaos-schedules: $(STAMP) ## A month of 200 schedules, 8 schedulers that are killed, a clock that is set (ARGS="--seed 7")
	$(BIN)/python -m tests.chaos.schedules $(ARGS)

calendar-kills: $(STAMP) ## 100 workers killed while they synchronise 1,000 events that are edited on both sides (ARGS="--seed 7")
	$(BIN)/python -m tests.calendars.kills $(ARGS)

feeds-week: $(STAMP) ## A week of 10,000 feeds on a virtual clock, each step judged (ARGS="--feeds 1000 --days 2")
	$(BIN)/python -m tests.feeds.week $(ARGS)

fuzz: $(STAMP) ## At least 5,000 calls of the whole API made up by Schemathesis (ARGS="--calls 20000 --seed 7")
	$(BIN)/python -m tests.server.fuzz $(ARGS)

matrix: $(STAMP) ## Run the engine's tests on Python 3.11–3.13 × PostgreSQL 14–18 (ARGS="--python 3.12 --postgres 16")
	$(BIN)/python -m tests.matrix $(ARGS)

docs: $(STAMP) ## Execute every snippet of README and docs
	$(BIN)/pytest tests/docs $(ARGS)

lock: $(STAMP) ## Resolve the dependencies anew
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --upgrade --generate-hashes --no-header --no-annotate --quiet -o requirements/dev.lock
	$(BIN)/uv pip compile pyproject.toml --extra server --universal --generate-hashes --no-header --no-annotate --quiet -c requirements/dev.lock -o requirements/server.lock
	printf 'hatchling>=1.27\nnodejs-wheel-binaries>=24\n' | $(BIN)/uv pip compile - --universal --generate-hashes --no-header --no-annotate --quiet -c requirements/dev.lock -o requirements/build.lock

clean: ## Remove the virtualenv, caches and local data
	rm -rf $(VENV) $(PAGES) dashboard/node_modules src/rota/server/dashboard .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .rota build dist

.PHONY: help setup dashboard schema browser screenshots run test check packages format bench chaos chaos-schedules calendar-kills feeds-week fuzz matrix docs lock clean
