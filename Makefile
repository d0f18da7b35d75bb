# Everything a contributor runs. `make help` lists the targets; each sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo dev test long check bench fuzz generate pin release clean

VENV   := .venv
TOOLS  := .tools
PYTHON ?= python3
RUN    := $(VENV)/bin

# uv comes from PATH, or from PyPI into the project's own folder, in the version of tools/uv.txt.
UV := $(shell command -v uv 2>/dev/null || echo $(TOOLS)/bin/uv)

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/.runtime  ## run a guided demo
	@$(RUN)/dray demo

dev: $(VENV)/.dev  ## set up .venv with dray, the tests and the tools
	@echo "Run: source $(VENV)/bin/activate"

test: $(VENV)/.dev  ## every test, with a share of the random rounds
	$(RUN)/pytest -n auto --dist loadgroup -q $(PYTEST_ARGS)

long: $(VENV)/.dev  ## images, and the random tests in large numbers: cases, kills, chaos, fuzzing; takes hours
	$(RUN)/pytest -n auto --dist loadgroup -q --long -m "random or long" $(PYTEST_ARGS)

check: $(VENV)/.dev  ## format, lint, types, layers and the quick tests
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy
	$(RUN)/lint-imports
	$(RUN)/pytest -n auto --dist loadgroup -q -m "not slow and not hardware" tests/unit tests/test_architecture.py

bench: $(VENV)/.dev  ## all benchmarks, compared with the last recorded run; takes a quarter of an hour
	$(RUN)/python -m tools.bench $(BENCH_ARGS)

fuzz: $(VENV)/.dev  ## random requests and CEL, five minutes each; FUZZ_SECONDS=n for another length
	$(RUN)/python -m tests.security.fuzz_cel --seconds $(or $(FUZZ_SECONDS),300)
	$(RUN)/python -m tests.security.fuzz_api --seconds $(or $(FUZZ_SECONDS),300)
	$(RUN)/python -m tests.security.fuzz_socket --seconds $(or $(FUZZ_SECONDS),300)

generate: $(VENV)/.dev  ## rebuild what is made from other files: schemas, protocol, parts of docs, pictures
	$(RUN)/python -m tools.make_schema
	$(RUN)/python -m tools.make_protocol
	$(RUN)/python -m tools.make_map
	$(RUN)/python -m tools.make_reference
	$(RUN)/python -m tools.make_lint_rules
	$(RUN)/python -m tools.make_dashboard
	$(RUN)/python -m tools.make_conformance
	$(RUN)/python -m tools.make_performance
	$(RUN)/python -m tools.make_policy_chart
	$(RUN)/python -m tools.make_picture
	$(RUN)/python -m tools.make_screenshots

# --universal: for every platform and Python that dray runs on, each file with its hash.
PIN := pip compile -q --universal --generate-hashes --no-annotate --no-header --python-version 3.11

pin: | $(UV)  ## update the pinned versions and hashes: constraints.txt, the images', uv's
	$(UV) $(PIN) --upgrade --group dev pyproject.toml -o constraints.txt
	$(UV) $(PIN) --extra nvidia --extra exporter pyproject.toml -c constraints.txt -o deploy/requirements.txt
	echo hatchling | $(UV) $(PIN) - -c constraints.txt -o deploy/build-requirements.txt
	echo uv | $(UV) $(PIN) --upgrade - -o tools/uv.txt

release: $(VENV)/.dev  ## check, and build what is published: VERSION=x, and URL=… for the place of downloads
	$(RUN)/python -m tools.release $(if $(URL),--url $(URL)) $(VERSION)

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(TOOLS) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist

$(TOOLS)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dray needs Python 3.11 or newer; this is $$($(PYTHON) --version). Set PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -m venv $(TOOLS) 2>/dev/null && $(TOOLS)/bin/pip -q install --require-hashes -r tools/uv.txt \
	  || { rm -rf $(TOOLS); $(PYTHON) -m pip -q install --prefix $(TOOLS) --require-hashes -r tools/uv.txt; } \
	  || { echo "No way to install uv: this Python has neither venv nor pip (Debian: apt install python3-venv)."; exit 1; }

$(VENV)/bin/python: | $(UV)
	@$(UV) venv -q --allow-existing --python $(PYTHON) $(VENV)

# constraints.txt pins every version and the hashes of its files; `make pin` updates it. What dray
# is built with has the same hashes (-b). dray itself has none, so it comes alone.
INSTALL := $(UV) pip install -q --python $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(INSTALL) --require-hashes -c constraints.txt -r pyproject.toml
	@$(INSTALL) --no-deps -b constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(INSTALL) --require-hashes -c constraints.txt -r pyproject.toml --group dev
	@$(INSTALL) --no-deps -b constraints.txt -e .
	@touch $@ $(VENV)/.runtime
