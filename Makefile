# Rota's commands. `make` lists them; each sets itself up on a machine with nothing but Python 3.11+.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help

help: ## List these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(STAMP): requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP) ## Make the virtualenv with the locked dependencies

run: $(STAMP) ## Start PostgreSQL, workers, a server and a demo application, with a live view and a link to sign in
	$(BIN)/rota demo

test: $(STAMP) ## Run the whole suite, in parallel and in random order
	$(BIN)/pytest -n auto --dist worksteal $(ARGS)

check: $(STAMP) ## Lint, types and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Format the code and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Measure Rota against a bare SQL loop and its peers (about an hour; ARGS="--quick" for ten minutes)
	$(BIN)/python -m bench $(ARGS)

chaos: $(STAMP) ## 20,000 jobs under kills, restarts and cut connections, judged from outside (ARGS="--seed 7")
	$(BIN)/python -m tests.chaos $(ARGS)

chaos-schedules: $(STAMP) ## A month of 200 schedules, 8 schedulers that are killed, a clock that is set (ARGS="--seed 7")
	$(BIN)/python -m tests.chaos.schedules $(ARGS)

fuzz: $(STAMP) ## At least 5,000 calls of the whole API made up by Schemathesis (ARGS="--calls 20000 --seed 7")
	$(BIN)/python -m tests.server.fuzz $(ARGS)

matrix: $(STAMP) ## Run the engine's tests on Python 3.11–3.13 × PostgreSQL 14–18 (ARGS="--python 3.12 --postgres 16")
	$(BIN)/python -m tests.matrix $(ARGS)

docs: $(STAMP) ## Execute every snippet of README and docs
	$(BIN)/pytest tests/docs $(ARGS)

lock: $(STAMP) ## Resolve the dependencies anew
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --upgrade --generate-hashes --no-header --no-annotate --quiet -o requirements/dev.lock
	$(BIN)/uv pip compile pyproject.toml --extra server --universal --generate-hashes --no-header --no-annotate --quiet -c requirements/dev.lock -o requirements/server.lock
	echo "hatchling>=1.27" | $(BIN)/uv pip compile - --universal --generate-hashes --no-header --no-annotate --quiet -c requirements/dev.lock -o requirements/build.lock

clean: ## Remove the virtualenv, caches and local data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .rota build dist

.PHONY: help setup run test check format bench chaos chaos-schedules fuzz matrix docs lock clean
