# Every target sets up what it needs. Start with: make run
.DEFAULT_GOAL := help
BIN := .venv/bin
INSTALLED := .venv/.installed
unexport PYTHONDONTWRITEBYTECODE  # what is compiled once is kept: tests start many processes

# Folders whose tests go through a gateway's store, and commands that work on it.
STORED := $(addprefix tests/,gateway ends stops stalls consumers api web memory mcp_server) \
  $(addprefix tests/cli/test_,people_cmd.py approvals_cmd.py approvals_terminal.py sessions_cmd.py sessions_reindex.py usage_cmd.py)

# A folder on disk, and one in memory where there is room (all tests together write less than two gigabytes).
SHM = $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null && echo /dev/shm)
FOLDERS = folder=$$(mktemp -d) && export HERMES_TESTS_QUICK=$$(mktemp -d $(if $(SHM),-p $(SHM))) && \
  trap 'rm -rf "$$folder" "$$HERMES_TESTS_QUICK"' EXIT && chmod 711 "$$HERMES_TESTS_QUICK"

.PHONY: help run chat test postgres peers check coverage pythons bench soak constraints clean

help:  ## show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

$(INSTALLED): pyproject.toml setup.py $(wildcard src/gateway/platforms/*/requirements.txt) lab/pyproject.toml constraints.txt scripts/setup
	@scripts/setup

run: $(INSTALLED)  ## start hermes: the gateway with the web page, whose address it prints
	@$(BIN)/hermes gateway run

chat: $(INSTALLED)  ## chat in the terminal
	@$(BIN)/hermes chat

test: $(INSTALLED)  ## run the tests
	@scripts/setup peers
	@$(FOLDERS) && \
	$(BIN)/python -m pytest -m "not soak and not peers" -n auto --dist worksteal --basetemp="$$folder/t"

postgres: $(INSTALLED)  ## the tests that go through a store once more, with PostgreSQL
	@scripts/setup peers
	@$(FOLDERS) && HERMES_TESTS_STORE=postgres \
	$(BIN)/python -m pytest -m "not soak and not peers and not file_store" -n auto --dist worksteal \
	--basetemp="$$folder/t" $(STORED)

peers: $(INSTALLED)  ## the long passes with a browser and real servers of chat apps, which it installs
	@scripts/setup browser
	@scripts/setup peers
	@$(FOLDERS) && \
	$(BIN)/python -m pytest -m peers -n 2 --dist worksteal --basetemp="$$folder/t"

check: $(INSTALLED)  ## lint, types, import contracts, sizes, dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/size_gate.py src lab
	$(BIN)/python scripts/dependency_gate.py

coverage: $(INSTALLED)  ## how much of src the tests run, and the least covered modules (TESTS=tests/agent for a part)
	@$(FOLDERS) && export COVERAGE_FILE="$$folder/data" && failed=0 && \
	{ $(BIN)/coverage run --source="$(CURDIR)/src" -m pytest -m "not soak and not peers" -n auto --dist worksteal \
	  --basetemp="$$folder/t" $(TESTS) || failed=1; } && \
	$(BIN)/coverage combine -q && $(BIN)/coverage report --sort=cover --skip-empty | sed -n '1,22p;/^TOTAL/p' && exit $$failed

pythons: $(INSTALLED)  ## run the quick tests on every Python that is on this machine
	@$(BIN)/python scripts/pythons.py

bench: $(INSTALLED)  ## measure against the limits
	@$(BIN)/python -m benches

soak: $(INSTALLED)  ## the tests that take minutes
	@$(BIN)/python -m pytest -m soak --timeout=3600

constraints: $(INSTALLED)  ## write the tested versions anew (needs uv)
	@printf '%s\n' '# The versions that were tested together. Made by `make constraints`; holds names and versions only.' > constraints.txt
	@uv pip compile -q pyproject.toml lab/pyproject.toml --all-extras --universal --python-version 3.11 --no-header --no-annotate --upgrade >> constraints.txt

clean:  ## remove the environment and caches
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
