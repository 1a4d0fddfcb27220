# LiteMQ's tasks; `make` alone lists them.

PYTHON ?= python3
BIN := .venv/bin
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header -p 3.11

# Old Pythons must be able to parse it, hence one line of ancient syntax.
NEED_PYTHON = $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("litemq: error: Python 3.11 or newer is needed; try: make PYTHON=python3.11")'
NEED_CLIENTS = for tool in java javac mvn go; do command -v $$tool >/dev/null || { echo "make clients: needs Java (a JDK), Maven and Go; the command $$tool is not here" >&2; exit 2; }; done

.DEFAULT_GOAL := help
.PHONY: help setup demo up test check fmt ext lock crash fuzz soak chaos bench bench-rocketmq bench-latency bench-backlog bench-memory bench-pauses bench-transactions bench-python clients databases spark spark-chaos spark-scale bench-spark docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' Makefile

setup: ## create .venv and compile the kernels; quick when nothing changed
	@$(NEED_PYTHON)
	@$(PYTHON) scripts/setup.py

demo: setup ## set up, then show a broker at work that survives a kill -9
	@$(BIN)/python -m litemq.demo

up: setup ## set up, then run a name server and a broker
	@$(BIN)/litemq up

test: setup ## set up, then run the unit tests and the quick fuzz and crash tests
	@$(BIN)/python -m pytest -m "not slow" --timeout=600 $(wildcard tests/unit tests/fuzz tests/crash tests/soak tests/chaos)

check: setup ## lint, format, types, import contracts, locks, leaked paths
	@$(BIN)/python scripts/check.py

fmt: setup ## format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

ext: ## compile the kernels; an error when that fails
	@$(NEED_PYTHON)
	@LITEMQ_REQUIRE_EXT=1 $(PYTHON) scripts/setup.py

lock: setup ## write requirements/*.lock anew from pyproject.toml
	@$(UV_COMPILE) --upgrade --group dev pyproject.toml -o requirements/dev.lock
	@$(UV_COMPILE) --upgrade --group bootstrap -o requirements/bootstrap.lock
	@$(UV_COMPILE) --upgrade --group spark -o requirements/spark.lock

crash: setup ## long crash runs: kill -9 and power cuts, many seeds
	@$(BIN)/python -m pytest -m crash --timeout=0 tests/crash

fuzz: setup ## hostile bytes against every decoder, many seeds
	@$(BIN)/python -m pytest --timeout=0 tests/fuzz

# LITEMQ_SOAK_S=180 shortens a run.
soak: setup ## 30 minutes of mixed load with consumers that join, leave and are killed
	@$(BIN)/python -m tests.soak

# LITEMQ_CHAOS_S=20 and LITEMQ_CHAOS_SEEDS=7,8 choose how long and which.
chaos: setup ## consumer groups of the SDK through restarts, kill -9 and Ctrl-C
	@$(BIN)/python -m tests.chaos

bench: setup ## print the benchmarks
	@$(BIN)/python -m benchmarks

# ARGS="--pairs 1 --seconds 3" shortens a run; ARGS=--help lists what there is.
bench-rocketmq: setup ## the broker beside a real RocketMQ; needs Java, Maven, a C compiler
	@$(BIN)/python -m benchmarks.broker rocketmq $(ARGS)

bench-latency: setup ## end to end beside Redis and NATS; needs redis-server, Go, a C compiler
	@$(BIN)/python -m benchmarks.broker latency $(ARGS)

bench-backlog: setup ## the broker with 10 million messages beside an empty one; needs a C compiler
	@$(BIN)/python -m benchmarks.broker backlog $(ARGS)

bench-memory: setup ## memory of connections and topics, start-up; needs a C compiler
	@$(BIN)/python -m benchmarks.broker memory $(ARGS)

bench-pauses: setup ## ten minutes of even load, and what paused the broker; needs a C compiler
	@$(BIN)/python -m benchmarks.broker pauses --seconds 600 $(ARGS)

bench-transactions: setup ## transactions beside a real RocketMQ, receipts, a million of both, batches; needs Java, Maven, a C compiler
	@$(BIN)/python -m benchmarks.broker transactions $(ARGS)

bench-python: setup ## the Python SDK beside four client libraries; needs redis-server, Go, Java, Maven, RabbitMQ
	@$(BIN)/python -m benchmarks.python $(ARGS)

clients: setup ## drive official RocketMQ clients and brokers; needs Java, Maven and Go
	@$(NEED_CLIENTS)
	@$(BIN)/python -m pytest -m clients --timeout=0 tests/clients

# LITEMQ_POSTGRESQL names the directory of initdb where it is not found by itself.
databases: setup ## the outbox on a real PostgreSQL; needs its programs
	@$(BIN)/python -m pytest -m databases tests/databases

# Spark is 460 MB and needs Java: it has a lock of its own, installed by this target only.
spark: setup ## read stores with a real Spark; needs Java 17
	@$(BIN)/python scripts/spark.py
	@$(BIN)/python -m pytest -m spark --timeout=300 tests/spark

# LITEMQ_CHAOS_ROUNDS and LITEMQ_CHAOS_SEED choose how many kills of each kind of stream and which.
spark-chaos: setup ## kill Spark drivers, executors, workers and brokers, twice 50 rounds; needs Java 17
	@$(BIN)/python scripts/spark.py
	@LITEMQ_CHAOS_ROUNDS=$${LITEMQ_CHAOS_ROUNDS:-50} $(BIN)/python -m pytest -m spark --timeout=0 tests/spark/test_chaos.py

# ARGS="--sizes 100000,200000 --jobs archive" shortens a run.
spark-scale: setup ## archive and audit of 1, 2 and 5 million messages on a cluster; needs Java 17
	@$(BIN)/python scripts/spark.py
	@$(BIN)/python -m benchmarks.spark.scale $(ARGS)

# ARGS="--rows scan,slice --pairs 1 --messages 100000" shortens a run.
bench-spark: setup ## reads and writes of Spark, beside Parquet; needs Java 17
	@$(BIN)/python scripts/spark.py
	@$(BIN)/python -m benchmarks.spark $(ARGS)

docs: setup ## check the links of the documentation
	@$(BIN)/python scripts/check.py docs

clean: ## remove what builds and tests left, .venv too
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find src tests benchmarks scripts \( -name '*.so' -o -name '__pycache__' -o -name '*.egg-info' \) -prune -exec rm -rf {} + 2>/dev/null || true
