# Everything a contributor runs. `make help` lists the targets; each sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo dev test long check bench fuzz generate pin clean

VENV   := .venv
TOOLS  := .tools
PYTHON ?= python3
RUN    := $(VENV)/bin

# uv comes from PATH, or from PyPI into the project's own folder.
UV := $(shell command -v uv 2>/dev/null || echo $(TOOLS)/bin/uv)

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.runtime  ## see dray work
	@$(RUN)/dray demo

dev: $(VENV)/.dev  ## set up .venv with dray, the tests and the tools
	@echo "Run: source $(VENV)/bin/activate"

test: $(VENV)/.dev  ## every test, with a share of the random rounds
	$(RUN)/pytest -n auto -q $(PYTEST_ARGS)

long: $(VENV)/.dev  ## the random tests in large numbers: cases, kills, chaos, fuzzing; takes hours
	$(RUN)/pytest -n auto -q --long -m random $(PYTEST_ARGS)

check: $(VENV)/.dev  ## format, lint, types, layers and the quick tests
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/lint-imports
	$(RUN)/pytest -n auto -q -m "not slow and not hardware" tests/unit tests/test_architecture.py

bench: $(VENV)/.dev  ## the benchmarks that need no scenario file
	$(RUN)/dray bench cel
	$(RUN)/dray bench churn

fuzz: $(VENV)/.dev  ## random requests and CEL, five minutes each; FUZZ_SECONDS=n for another length
	$(RUN)/python -m tests.security.fuzz_cel --seconds $(or $(FUZZ_SECONDS),300)
	$(RUN)/python -m tests.security.fuzz_api --seconds $(or $(FUZZ_SECONDS),300)
	$(RUN)/python -m tests.security.fuzz_socket --seconds $(or $(FUZZ_SECONDS),300)

generate: $(VENV)/.dev  ## rebuild what is made from other files: schemas, protocol, parts of docs
	$(RUN)/python -m tools.make_schema
	$(RUN)/python -m tools.make_protocol
	$(RUN)/python -m tools.make_map
	$(RUN)/python -m tools.make_reference

pin: | $(UV)  ## write constraints.txt anew: the versions `make` installs
	$(UV) pip compile -q --universal --upgrade --group dev pyproject.toml --no-annotate --no-header -o constraints.txt

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(TOOLS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist

$(TOOLS)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dray needs Python 3.11 or newer; this is $$($(PYTHON) --version). Set PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -m venv $(TOOLS) 2>/dev/null && $(TOOLS)/bin/pip -q install uv \
	  || { rm -rf $(TOOLS); $(PYTHON) -m pip -q install --prefix $(TOOLS) uv; } \
	  || { echo "No way to install uv: this Python has neither venv nor pip (Debian: apt install python3-venv)."; exit 1; }

$(VENV)/bin/python: | $(UV)
	@$(UV) venv -q --allow-existing --python $(PYTHON) $(VENV)

# constraints.txt pins every version; `make pin` writes it anew.
$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(UV) pip install -q --python $(VENV) -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(UV) pip install -q --python $(VENV) -c constraints.txt -e . --group dev
	@touch $@ $(VENV)/.runtime
