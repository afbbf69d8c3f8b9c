# `make` alone lists what can be asked for.
.DEFAULT_GOAL := help
.PHONY: help demo test check bench

CARGO ?= cargo

help:  ## Lists these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo:  ## Trains two models on this machine: linear regression, click-through rate
	$(CARGO) run --release --locked --quiet --example fit_a_line
	$(CARGO) run --release --locked --quiet --example ctr_dnn

test:  ## Runs every test
	$(CARGO) test --workspace --locked

check:  ## Format, lints, house rules: what a reviewer would say first
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --locked -p testing --test tidy

bench:  ## Measures training, one number per line
	$(CARGO) bench --locked -p testing --bench training
