# `make` alone lists what can be asked for.
.DEFAULT_GOAL := help
.PHONY: help demo test py rust check modules bench interop engines stores wheel soak kills

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

# Both halves run, whatever the first one finds.
test:  ## Runs every test, of Python and of Rust; the last lines say what was skipped and why, and what failed
	@failed=""; \
	$(MAKE) --no-print-directory py || failed="$$failed py"; \
	$(MAKE) --no-print-directory rust || failed="$$failed rust"; \
	if [ -f $(SKIPPED) ]; then echo "$$(wc -l < $(SKIPPED)) skipped"; cat $(SKIPPED); fi; \
	if [ -n "$$failed" ]; then echo "failed:$$failed (make py: tests of Python; make rust: tests of Rust)" >&2; exit 1; fi

rust:  ## Runs the tests of the crates
	$(CARGO) test --workspace --locked --no-fail-fast

OLD_NUMPY := sh python/tests/tools/old_numpy.sh
# Most tests start processes and wait for them: three run side by side on two cores.
PYTEST := $(VENV)/bin/python -m pytest -q -rs -n 3 --dist worksteal

py: export SKIPPED_TESTS := $(SKIPPED)
py: $(VENV)/ready  ## Builds the Python package into .venv and runs its tests, those of arrays with old numpys too
	@: > $(SKIPPED)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --quiet --locked
	$(PYTEST) python/tests
	PYTHON="$(PYTHON)" $(OLD_NUMPY) 1.26 3.12 3.11 3.10 3.9
	PYTHON="$(PYTHON)" $(OLD_NUMPY) 1.21 3.10 3.9

$(VENV)/ready:
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet "maturin>=1.8,<2" "numpy>=2" pytest pytest-xdist kubernetes-validate
	$(VENV)/bin/python -m pip install --quiet onnx onnxruntime safetensors fastparquet || \
	    echo "tests of exported files will be skipped: their readers could not be installed"
	touch $@

check:  ## Format, lints, house rules: what a reviewer would say first
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --locked --test house

modules:  ## Shows which module of a crate uses which
	$(CARGO) test --locked --quiet --workspace --test house -- --nocapture modules_of

RIG := python/tests/rig

# One target and seed repeat what was found: make soak TARGET=requests SEED=12 N=1
TARGET ?= all
SEED ?= 0
N ?= 10000000
# Processes that are killed in sync jobs; a fifth as many in each of the other modes, and while they save.
KILLS ?= 1000
SEEDS ?= 10000

soak: $(VENV)/ready  ## Broken bytes for all that reads bytes, random inputs for every op, and deaths of all processes of real and simulated jobs
	$(CARGO) run --profile soak --locked --quiet -p testing --bin soak -- $(TARGET) $(SEED) $(N)
ifeq ($(TARGET),all)
	FUZZ_SEED=$(SEED) FUZZ_EXECUTIONS=$(N) $(CARGO) test --profile soak --locked --quiet -p testing --test fuzz_ops -- --nocapture
	SEEDS=$(SEEDS) $(CARGO) test --profile soak --locked --quiet -p testing --test recovery simulation_recovery
	$(MAKE) kills
endif

# Jobs of an optimised build are quick: longer ones are disturbed.
kills: export RIG_EPOCHS := 8
kills: $(VENV)/ready  ## Kills processes of real jobs, fills their disks and cuts off machines (as root), and compares what the jobs save
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --release --quiet --locked
	$(VENV)/bin/python $(RIG)/kills.py --mode sync --source dataset --kills $$(($(KILLS) * 2 / 5)) --seed $(SEED)
	$(VENV)/bin/python $(RIG)/kills.py --mode sync --source run --kills $$(($(KILLS) * 2 / 5)) --seed $(SEED)
	$(VENV)/bin/python $(RIG)/kills.py --mode sync --source pipe --kills $$(($(KILLS) / 5)) --seed $(SEED)
	for mode in ssp async half_async geo; do for source in run dataset; do \
	    $(VENV)/bin/python $(RIG)/kills.py --mode $$mode --source $$source --kills $$(($(KILLS) / 10)) --seed $(SEED) || exit 1; \
	done; done
	$(VENV)/bin/python $(RIG)/scales.py --kills $$(($(KILLS) / 10)) --seed $(SEED)
	$(VENV)/bin/python $(RIG)/flips.py --flips $$(($(KILLS) / 5)) --seed $(SEED)
	$(VENV)/bin/python $(RIG)/saves.py --kills $$(($(KILLS) / 5)) --seed $(SEED)
	$(VENV)/bin/python $(RIG)/faults.py --rounds $$(($(KILLS) / 100))
	if [ "$$(id -u)" = 0 ] && command -v ip > /dev/null; then \
	    $(VENV)/bin/python $(RIG)/machines.py --mode sync --jobs $$(($(KILLS) / 50)) --seed $(SEED); \
	else echo "machines.py is skipped: it needs root and iproute2"; fi

# Pythons with paddlepaddle 1.8.5 and 2.6.2; those named here are used instead of installing them.
FLUID_PYTHON ?= .interop/fl/bin/python
PADDLE26_PYTHON ?= .interop/pd/bin/python
# A git directory of PaddlePaddle/PaddleRec, whose models are then trained.
PADDLEREC_GIT ?=

interop: engines stores $(FLUID_PYTHON) $(PADDLE26_PYTHON)  ## Exchanges models with the real Fluid 1.8.5 and Paddle 2.6.2, and runs jobs on real schedulers
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --quiet --locked
	$(VENV)/bin/python python/interop/run.py --fluid $(FLUID_PYTHON) --paddle $(PADDLE26_PYTHON)
	$(VENV)/bin/paddlewheel run python/interop/paddle2_models.py save .interop/models2
	$(PADDLE26_PYTHON) python/interop/paddle2_models.py check .interop/models2
	$(PADDLE26_PYTHON) python/interop/paddle2_models.py save .interop/models26
	$(VENV)/bin/paddlewheel run python/interop/paddle2_models.py check .interop/models26
	if [ -n "$(PADDLEREC_GIT)" ]; then \
	    $(VENV)/bin/python python/interop/paddlerec.py --git $(PADDLEREC_GIT) --python $(VENV)/bin/python --paddle $(PADDLE26_PYTHON); \
	else echo "models of PaddleRec are skipped: PADDLEREC_GIT names no git directory of it"; fi

engines: $(VENV)/ready  ## Runs jobs on the real Slurm and Ray and with the real mpirun (as root it installs them), and kills tasks
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --quiet --locked
	$(VENV)/bin/python -m pip install --quiet kubernetes-validate
	$(VENV)/bin/python -m pip install --quiet ray || echo "Ray could not be installed: its checks are skipped"
	sh python/interop/install_engines.sh
	$(VENV)/bin/python -m pytest -q -rs python/tests/test_render.py python/tests/test_engines.py
	$(VENV)/bin/python python/interop/engines.py

stores: $(VENV)/ready  ## Reads from the real Swift (S3) and the real HDFS (as root it installs them), and breaks connections
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --quiet --locked
	sh python/interop/install_stores.sh $(VENV)/bin/python .interop/hadoop
	$(VENV)/bin/python python/interop/stores.py .interop/hadoop

.interop/fl/bin/python:
	sh python/interop/install.sh 3.7 .interop/fl 'numpy<1.20' protobuf==3.20.3 paddlepaddle==1.8.5

.interop/pd/bin/python:
	sh python/interop/install.sh 3.10 .interop/pd 'numpy<2' protobuf==3.20.3 setuptools paddlepaddle==2.6.2

BENCHES := training dataset crowd exchange contention
BENCHES += saving snapshots pings
BENCHES += memory
BENCHES += predicting

# A Python that has torch, to compare with.
TORCH_PYTHON ?= .interop/torch/bin/python

bench: $(VENV)/ready  ## Measures training, reading and calls from Python, one number per line
	$(CARGO) bench --locked -p testing $(addprefix --bench ,$(BENCHES))
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --release --quiet --locked
	$(VENV)/bin/python python/bench/overhead.py --fluid "$(wildcard $(FLUID_PYTHON))"
	$(VENV)/bin/python python/bench/first_batch.py
	$(VENV)/bin/python python/bench/predicting.py
	$(VENV)/bin/python python/bench/short_way.py
	$(VENV)/bin/python python/bench/recovery.py
	$(VENV)/bin/python python/bench/scale.py
	$(VENV)/bin/python python/bench/watching.py
	$(VENV)/bin/python python/bench/progress.py
	$(VENV)/bin/python python/bench/security.py
	$(VENV)/bin/python python/bench/collective.py --torch "$(wildcard $(TORCH_PYTHON))"

WHEEL := .wheel

wheel:  ## Builds a wheel for all Linux systems since 2014 into dist/, its symbols beside it, and trains with it in a clean environment
	$(PYTHON) -m venv $(WHEEL)/build
	$(WHEEL)/build/bin/python -m pip install --quiet "maturin[zig]>=1.8,<2" auditwheel
	rm -rf dist $(WHEEL)/clean
	CARGO_PROFILE_RELEASE_STRIP=none PATH="$(CURDIR)/$(WHEEL)/build/bin:$$PATH" \
	    maturin build --release --locked --zig --compatibility manylinux2014 --out dist
	$(WHEEL)/build/bin/python python/tools/strip_wheel.py dist/*.whl
	$(WHEEL)/build/bin/auditwheel show dist/*.whl
	$(PYTHON) -m venv $(WHEEL)/clean
	$(WHEEL)/clean/bin/python -m pip install --quiet dist/*.whl
	cd $(WHEEL) && clean/bin/paddlewheel run ../examples/book/fit_a_line.py
