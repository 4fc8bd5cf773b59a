# `make help` lists the targets. CORES=, CONFIG=, ARTIFACTS=, MARKERS=, PYTHON=, BENCH= and SNAKEMAKE_ARGS= can be set on the
# command line.

PYTHON ?= python3
CORES ?= all
CONFIG ?= config.yaml
ARTIFACTS ?= results/reference.zip
OLD_PYTHON := Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11
MARKERS ?= not slurm and not faults
SNAKEMAKE_ARGS ?=
BENCH ?=
BIN := .venv/bin
TABLES := .venv-tables
# Tables of stored artefacts go to a folder with the name of the file; of a run's own folder, beside it.
STORED = $(notdir $(basename $(ARTIFACTS:.tar.gz=.zip)))
STORED_NAME = $(STORED)$(if $(wildcard results/$(STORED)/shards),-artifacts)
WORKERS = $(if $(filter all,$(CORES)),auto,$(CORES))
NAME = $(shell sed -n 's/^name: *\([^ #]*\).*/\1/p' $(CONFIG))

.DEFAULT_GOAL := help
.PHONY: help install run tables test test-faults test-slurm audit update lint bench alibi slurm generic format docs mkdocs clean

help: ## list all targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: .venv/.installed ## create .venv with pinned dependencies if it is absent or out of date

.venv/.installed: envs/evaluation.txt envs/core.txt envs/develop.txt envs/constraints.txt envs/hashes.txt envs/hashes-evaluation.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(OLD_PYTHON)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r envs/hashes.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/core.txt -r envs/develop.txt -c envs/constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

run: install ## run the workflow (CONFIG=config.yaml) and print the path of the report
	@$(BIN)/snakemake $(SNAKEMAKE_ARGS) --cores $(CORES) --configfile $(CONFIG)
	@echo "Done. Look at: results/$(NAME)/report.html"

tables: $(ARTIFACTS) $(TABLES)/.installed ## make tables, figures and the page from stored artefacts (ARTIFACTS=FILE), without torch
	@$(TABLES)/bin/snakemake $(SNAKEMAKE_ARGS) --cores $(CORES) tables figures report --config artifacts=$(ARTIFACTS) name=$(STORED_NAME)
	@echo "Done. Look at: results/$(STORED_NAME)/report.html"

$(ARTIFACTS):
	@echo "$@: no such file or folder. Name stored artefacts, such as an archive of a run: make tables ARTIFACTS=FILE"; exit 1

$(TABLES)/.installed: envs/hashes-evaluation.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(OLD_PYTHON)"; exit 1; }
	$(PYTHON) -m venv $(TABLES)
	$(TABLES)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

test: install lint ## run the linters, the unit tests and the workflow tests
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(WORKERS) -m "$(MARKERS)"

test-faults: install ## kill, damage, fill disks and fuzz by the hundred (half an hour), and write docs/reliability.md
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/faults.txt -c envs/constraints.txt
	$(BIN)/python tests/faults/report.py --numprocesses $(WORKERS) --dist worksteal

test-slurm: slurm generic ## run the workflow on a real SLURM cluster on this machine (Debian, as root)
	$(BIN)/pytest -m slurm

bench: install ## measure speed and memory (results/benchmarks/*.json), and write docs/speed.md (BENCH=--quick: roughly)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target results/environments/art -r envs/benchmarks.txt
	for benchmark in benchmarks/*.py; do bash -c "time $(BIN)/python $$benchmark $(BENCH)" || exit 1; done
	$(BIN)/python docs/speed_page.py

alibi: install ## install alibi, the reference for VLK, into a separate environment (about 2 GB)
	$(BIN)/snakemake --cores 1 alibi_environment

slurm: install ## install Snakemake's SLURM plugin into .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/slurm.txt -c envs/constraints.txt

generic: install ## install Snakemake's plugins for other schedulers, and for files in a storage, into .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/generic.txt -c envs/constraints.txt

lint: install ## run ruff, mypy, snakefmt and snakemake --lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/snakemake --lint

format: install ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

audit: install ## write docs/licences.md: every installed package with its version and licence
	$(BIN)/python docs/licences.py

update: ## pin the newest versions that work together (envs/*.txt), then run the tests before committing them
	$(PYTHON) envs/update.py

docs: install mkdocs ## write the reference pages, and build the documentation as a site (site/index.html)
	$(BIN)/python docs/reference_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

mkdocs: install ## install MkDocs into .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r envs/docs.txt -c envs/constraints.txt

clean: ## remove the environment and the caches, but keep the results
	rm -rf .venv $(TABLES) .snakemake .pytest_cache .ruff_cache .mypy_cache
