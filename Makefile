# `make` alone lists what can be asked for.
.DEFAULT_GOAL := help
.PHONY: help demo test py check modules bench interop soak

CARGO ?= cargo
PYTHON ?= python3
VENV := .venv

help:  ## Lists these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/ready  ## Trains a line, then click-through rate on two servers and two trainers
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --release --quiet --locked
	$(VENV)/bin/paddlewheel run examples/book/fit_a_line.py
	$(VENV)/bin/paddlewheel run examples/ctr/demo.py

# A test that is skipped writes a line here, with the reason.
SKIPPED := $(CURDIR)/$(VENV)/skipped.txt

test: py  ## Runs every test; the last lines say what was skipped and why
	$(CARGO) test --workspace --locked
	@echo "$$(wc -l < $(SKIPPED)) skipped" && cat $(SKIPPED)

py: export SKIPPED_TESTS := $(SKIPPED)
py: $(VENV)/ready  ## Builds the Python package into .venv and runs its tests, those of arrays with old numpys too
	@: > $(SKIPPED)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --quiet --locked
	$(VENV)/bin/python -m pytest -q -rs python/tests
	PYTHON="$(PYTHON)" sh python/tests/tools/old_numpy.sh 1.26 3.12 3.11 3.10 3.9
	PYTHON="$(PYTHON)" sh python/tests/tools/old_numpy.sh 1.21 3.10 3.9

$(VENV)/ready:
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet "maturin>=1.8,<2" "numpy>=2" pytest
	touch $@

check:  ## Format, lints, house rules: what a reviewer would say first
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --test tidy

modules:  ## Shows which module of a crate uses which
	$(CARGO) test --locked --quiet -p testing --test tidy -- --nocapture modules_of

# One target and seed repeat what was found: make soak TARGET=requests SEED=12 N=1
TARGET ?= all
SEED ?= 0
N ?= 10000000

soak:  ## Hands broken bytes to all that reads bytes of others, 10 million times, and random inputs to every op; nothing may panic
	$(CARGO) run --profile soak --locked --quiet -p testing --bin soak -- $(TARGET) $(SEED) $(N)
ifeq ($(TARGET),all)
	FUZZ_SEED=$(SEED) FUZZ_EXECUTIONS=$(N) $(CARGO) test --profile soak --locked --quiet -p testing --test fuzz_ops -- --nocapture
endif

# Pythons with paddlepaddle 1.8.5 and 2.6.2; those named here are used instead of installing them.
FLUID_PYTHON ?= .interop/fl/bin/python
PADDLE26_PYTHON ?= .interop/pd/bin/python

interop: $(VENV)/ready $(FLUID_PYTHON) $(PADDLE26_PYTHON)  ## Exchanges models with the real Fluid 1.8.5 and Paddle 2.6.2
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --quiet --locked
	$(VENV)/bin/python python/interop/run.py --fluid $(FLUID_PYTHON) --paddle $(PADDLE26_PYTHON)

.interop/fl/bin/python:
	sh python/interop/install.sh 3.7 .interop/fl 'numpy<1.20' protobuf==3.20.3 paddlepaddle==1.8.5

.interop/pd/bin/python:
	sh python/interop/install.sh 3.10 .interop/pd 'numpy<2' protobuf==3.20.3 setuptools paddlepaddle==2.6.2

bench: $(VENV)/ready  ## Measures training, reading and calls from Python, one number per line
	$(CARGO) bench --locked -p testing --bench training --bench dataset --bench crowd --bench exchange --bench contention
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --release --quiet --locked
	$(VENV)/bin/python python/bench/overhead.py --fluid "$(wildcard $(FLUID_PYTHON))"
	$(VENV)/bin/python python/bench/first_batch.py
