# Everything a person or CI runs. `make` alone lists it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
PATHWAY := .venv-pathway/.ready

.PHONY: help demo test lint types bench clean setup

help: ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{ printf "make %-8s %s\n", $$1, $$2 }'

setup: $(READY) ## Create .venv with everything installed

$(READY): pyproject.toml constraints.txt
	@echo "setting up .venv (once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "viewkeeper needs Python 3.11 or newer")'
	@rm -rf .venv && $(PYTHON) -m venv .venv
	@PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e '.[spark,serve,dev]'
	@touch $@

demo: $(READY) ## Show the Python standard library as a software catalogue, and a security update of Debian
	@$(BIN)/python examples/software/demo.py
	@$(BIN)/python examples/debian/demo.py

test: $(READY) lint types ## Lint, check types and run all tests
	@$(BIN)/python -m pytest -q -n 2

lint: $(READY) ## Check style and formatting
	@$(BIN)/ruff check src tests examples bench
	@$(BIN)/ruff format --check src tests examples bench

types: $(READY) ## Check types (mypy, strict)
	@$(BIN)/mypy

bench: $(READY) $(PATHWAY) ## Measure against DuckDB and Pathway and write docs/benchmarks.md
	@$(BIN)/python -m bench

# Pathway wants an older Arrow than constraints.txt has. If it cannot be installed, its section of the report says so.
$(PATHWAY): pyproject.toml
	@echo "setting up .venv-pathway (once)"
	@rm -rf .venv-pathway && $(PYTHON) -m venv .venv-pathway
	@.venv-pathway/bin/pip install --quiet --disable-pip-version-check '.[bench]' || echo "Pathway could not be installed" >&2
	@touch $@

clean: ## Remove the environments and everything generated
	rm -rf .venv .venv-pathway build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
