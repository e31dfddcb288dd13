# Tasks of the project. `make setup` once, then `make check` before each commit.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the samples are built for. The path of a wheel will do, too.
TORCH_WHEEL ?= torch==2.13.0

# Where packages come from, this machine's configuration of pip decides: indexes, proxies, certificates. Which versions
# other projects here may use, and where they are installed, does not concern $(VENV).
export PIP_CONSTRAINT := /dev/null
export PIP_BUILD_CONSTRAINT := /dev/null
export PIP_USER := 0
export PIP_NO_DEPS := 0
export PIP_REQUIRE_HASHES := 0
unexport PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_REQUIREMENT PIP_EDITABLE PIP_DRY_RUN PIP_NO_BUILD_ISOLATION
UNIT := tests/unit tests/property tests/golden tests/test_cases.py tests/test_architecture.py
# What is imported is compiled then; of most packages, hardly any module is.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile

.PHONY: first-run setup tools torch check quick lint unit icicle test fuzz fuzz-day hostile native-fuzz native-arm64 pythons docs truth bench gen new-rule release

first-run: $(BIN)/abiscan  ## check a sample with what is inside the package; nothing else is installed
	$(BIN)/abiscan check sample_binaries/undefined_symbol_signature/undefined_symbol_signature.so --torch 2.13.0 || test $$? -eq 1

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(BIN)/abiscan: | $(BIN)/python
	$(INSTALL) .

setup:  ## install the package editable, with the test tools and the torch that the tests load extensions into
	@$(MAKE) --no-print-directory tools
	@$(MAKE) --no-print-directory torch

tools: | $(BIN)/python  ## the first half of setup: all but torch
	$(INSTALL) 'pip>=25.1'  # the first one that reads dependency groups
	$(INSTALL) --editable . --group test --group docs

torch:  ## the second half of setup
	@echo "Installing $(TORCH_WHEEL): PyPI has it with CUDA, which is several GB. CONTRIBUTING.md says how to get the CPU build."
	$(INSTALL) '$(TORCH_WHEEL)'

check: lint docs test  ## everything CI checks

quick:  ## within two minutes, after each change: lint and unit; needs no network and no torch
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint unit

lint:  ## style, types, imports, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.gen_docs --check

unit:  ## the unit tests that are not slow; PYTEST=options
	$(BIN)/python -m pytest --quiet --numprocesses=2 --dist=loadgroup -m "not slow" $(PYTEST) $(UNIT)

icicle:  ## where there is no compiler, icicle executes everything
	ABISCAN_NATIVE=0 $(BIN)/python -m pytest --quiet tests/unit/emulation/test_emulator.py \
		tests/unit/emulation/test_samples.py tests/oracle/test_processor.py

test:  ## all tests; those on recorded loads need ABISCAN_CORPUS, a folder for downloads; PYTEST=options
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadgroup $(PYTEST)

fuzz:  ## slow: 100,000 hostile inputs through the commands, for at most four hours; SEED=number
	$(BIN)/python -m tools.fuzz --seed $(or $(SEED),0) --count 100000 --time-limit 14400

fuzz-day:  ## hostile inputs for five minutes, with the seed of the day, which is printed: .ci/fuzz; SEED=number
	$(BIN)/python -m tools.fuzz --seed $(or $(SEED),$(shell date -u +%Y%m%d)) --count 100000 --time-limit 300

hostile:  ## hostile targets, indexes, caches, terminals and folders; PYTEST=options
	$(BIN)/python -m pytest --quiet --numprocesses=2 --dist=load -m hostile $(PYTEST) tests

NATIVE = abiscan/native
native-fuzz:  ## slow: a million random sequences of instructions for the native processor, with sanitizers; SEED=number
	mkdir -p build
	$(or $(CC),cc) -std=c11 -O1 -g -ffp-contract=off -fsanitize=address,undefined -fno-sanitize-recover=all \
		tools/fuzz/native.c $(filter-out %/module.c,$(wildcard $(NATIVE)/*.c)) -o build/native-fuzz
	build/native-fuzz $(or $(SEED),0) 1000000

native-arm64:  ## slow: a million instructions of AArch64 in the native processor and in QEMU; records those of tests/oracle
	mkdir -p build
	$(or $(CC),aarch64-linux-gnu-gcc) -static -std=gnu11 -O1 -ffp-contract=off \
		tests/oracle/native/arm64.c $(filter-out %/module.c,$(wildcard $(NATIVE)/*.c)) -o build/native-arm64
	qemu-aarch64-static build/native-arm64 $(or $(SEED),0) 1000000
	qemu-aarch64-static build/native-arm64 1 20000 > tests/oracle/native/arm64.txt

pythons:  ## slow: the unit tests on every supported Python that this machine has
	$(BIN)/python -m tools.pythons

docs:  ## the documentation site, in build/docs; warnings are errors
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/docs

truth:  ## slow: every recorded pair of extension and torch (downloads 5 GB, unpacks 7 GB)
	$(BIN)/python -m tools.ground_truth

bench:  ## ratios against auditwheel, abi3audit and importing torch; BENCH=--compare fails if one is 20 % worse
	$(BIN)/python -m benchmarks.run --large --npu --twelve --environment $(BENCH)
	$(BIN)/python -m benchmarks.reading
	$(BIN)/python -m benchmarks.scaling

gen:  ## regenerate the schemas of the JSON documents, and the generated parts of the documentation
	$(BIN)/python -m tools.gen_docs

release:  ## slow: put a release of torch into the package, and test; VERSION=2.16.0, or several; INDEX=where pip looks, too
	$(BIN)/python -m tools.release $(VERSION) $(if $(INDEX),--index $(INDEX))
	$(MAKE) gen test

new-rule:  ## make new-rule NAME=some-rule
	$(BIN)/python -m tools.new_rule $(NAME)
