# `make` alone lists what can be asked for.
.DEFAULT_GOAL := help
.PHONY: help demo test py check bench

CARGO ?= cargo
PYTHON ?= python3
VENV := .venv

help:  ## Lists these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo:  ## Trains two models on this machine: linear regression, click-through rate
	$(CARGO) run --release --locked --quiet --example fit_a_line
	$(CARGO) run --release --locked --quiet --example ctr_dnn

test: py  ## Runs every test
	$(CARGO) test --workspace --locked

py: $(VENV)/ready  ## Builds the Python package into .venv and runs its tests
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --quiet --locked
	$(VENV)/bin/python -m pytest -q python/tests

$(VENV)/ready:
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet "maturin>=1.8,<2" numpy pytest
	touch $@

check:  ## Format, lints, house rules: what a reviewer would say first
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --locked -p testing --test tidy

bench:  ## Measures training, one number per line
	$(CARGO) bench --locked -p testing --bench training
