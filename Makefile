# Tasks of the project. `make setup` once, then `make check` before each commit.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: first-run setup check lint test docs truth bench gen new-rule

first-run: $(BIN)/abiscan  ## judge a sample with what is inside the package; nothing else is installed
	$(BIN)/abiscan check sample_binaries/undefined_symbol_signature/undefined_symbol_signature.so --torch 2.13.0 || test $$? -eq 1

$(BIN)/abiscan:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet .

setup:  ## install the package editable, with the test tools and the torch that the tests load extensions into
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[test,docs]' 'torch==2.13.0'

check: lint docs test  ## everything CI checks

lint:  ## style, types, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.gen_docs --check

test:  ## all tests; those on recorded loads need ABISCAN_CORPUS, a folder for downloads
	$(BIN)/python -m pytest

docs:  ## the documentation site, in build/docs; warnings are errors
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/docs

truth:  ## slow: every recorded pair of extension and torch (downloads 4 GB, unpacks 6 GB)
	$(BIN)/python -m tools.ground_truth

bench:  ## ratios against auditwheel, abi3audit and importing torch
	$(BIN)/python -m benchmarks.run

gen:  ## regenerate the generated parts of the documentation
	$(BIN)/python -m tools.gen_docs

new-rule:  ## make new-rule NAME=some-rule
	$(BIN)/python -m tools.new_rule $(NAME)
