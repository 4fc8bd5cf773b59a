# `make help` lists the targets. CORES=, CONFIG=, PYTHON= and SNAKEMAKE_ARGS= may be given on the command line.

PYTHON ?= python3
CORES ?= all
CONFIG ?= config.yaml
SNAKEMAKE_ARGS ?=
BIN := .venv/bin
WORKERS = $(if $(filter all,$(CORES)),auto,$(CORES))
NAME = $(shell sed -n 's/^name: *\([^ #]*\).*/\1/p' $(CONFIG))

.DEFAULT_GOAL := help
.PHONY: help install run test test-slurm lint bench alibi slurm format docs clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: .venv/.installed ## create .venv with pinned dependencies (nothing happens if it is up to date)

.venv/.installed: envs/core.txt envs/develop.txt envs/constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/core.txt -r envs/develop.txt -c envs/constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

run: install ## run the workflow (CONFIG=config.yaml) and say where to look
	@$(BIN)/snakemake $(SNAKEMAKE_ARGS) --cores $(CORES) --configfile $(CONFIG)
	@echo "Done. Look at: results/$(NAME)/report.html"

test: install lint ## lint, unit tests and workflow tests
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(WORKERS) -m "not workflow"
	$(BIN)/pytest -m workflow

test-slurm: slurm ## run the workflow on a real SLURM on this machine (Debian, as root)
	$(BIN)/pytest tests/slurm/test_slurm.py

bench: install ## measure the speed of search, VLK and realism, one after the other (results/benchmarks/*.json)
	for benchmark in benchmarks/*.py; do $(BIN)/python $$benchmark || exit 1; done

alibi: install ## install alibi and TensorFlow (about 2 GB) apart, as the reference of VLK
	$(BIN)/snakemake --cores 1 alibi_environment

slurm: install ## add the SLURM plugin to .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/slurm.txt -c envs/constraints.txt

lint: install ## ruff, mypy, snakefmt and snakemake --lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

format: install ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

docs: install ## rewrite the reference page of the configuration
	$(BIN)/python -m deduce.config > docs/configuration.md

clean: ## remove the environment and caches, keep the results
	rm -rf .venv .snakemake .pytest_cache .ruff_cache .mypy_cache
