# The documented commands. `make` alone lists them.
PYTHON ?= python3
STAGE ?= dev
# Marks of what is installed: for the demo; for the other commands and bin/tidetable; for the tests and checks.
DEMO := .venv/.demo
TOOLS := .venv/.tools
VENV := .venv/.installed
NODE_TOOLS := node_modules/.tools
NODE := node_modules/.installed
# The official engine, which is published as a jar inside a package of npm's; only the tests need it.
SIMULATOR := amplify-dynamodb-simulator-2.9.30.tgz
SIMULATOR_SHA256 := 3503ffac19f183407909fecdacf4db51ab1fdad1da7b2f177016670b2d80e4b9
JAR := .dynamodb-local/DynamoDBLocal.jar
PY := .venv/bin/python
CDK := JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20 node_modules/.bin/cdk

# Which variables each target takes. A variable that would be passed over in silence is an error: `make synth CONFG=shop.toml`
# would otherwise synthesise another configuration than the one that its user thinks of.
TAKES_demo := CONFIG ENGINE KEEP
TAKES_local := CONFIG ENGINE FRESH
TAKES_synth := STAGE CONFIG ROLE ORIGIN
TAKES_bootstrap := STAGE CONFIG ROLE ORIGIN
TAKES_mutate := SEED COUNT PATHS JOBS ELSEWHERE
TAKES_adopt := STAGE CONFIG
TAKES_wheel := PLATFORMS
TAKES_deploy := STAGE CONFIG ROLE ORIGIN
TAKES_destroy := STAGE CONFIG ROLE ORIGIN
GOALS := $(or $(MAKECMDGOALS),help)
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
TAKEN := PYTHON VENV SHELL CURDIR MAKEFLAGS $(foreach goal,$(GOALS),$(TAKES_$(goal)))
UNKNOWN := $(strip $(filter-out $(TAKEN),$(GIVEN)))
$(if $(UNKNOWN),$(error make $(GOALS) takes no $(UNKNOWN); it takes: $(sort PYTHON $(foreach goal,$(GOALS),$(TAKES_$(goal))))$(if $(filter CONFIG,$(UNKNOWN)),. To check a configuration: bin/tidetable check FILE)))
$(if $(and $(CONFIG),$(filter CONFIG,$(TAKEN))),$(if $(wildcard $(CONFIG)),,$(error CONFIG=$(CONFIG): there is no such file)))
ENGINE ?= emulator
$(if $(filter emulator dynamodb-local,$(ENGINE)),,$(error ENGINE=$(ENGINE): use emulator or dynamodb-local))
WITH_CONFIG = $(if $(CONFIG),-c config=$(CONFIG))
WITH_ROLE = $(if $(ROLE),-c role=$(ROLE)) $(if $(ORIGIN),-c origin=$(ORIGIN))
LOCALLY = $(if $(CONFIG),--config $(CONFIG)) $(if $(filter-out file,$(origin ENGINE)),--engine $(ENGINE))
NEEDS_JAR := $(if $(filter dynamodb-local,$(ENGINE)),$(JAR))

# Compiled modules are kept, also where the machine says otherwise, as most images of containers do: each command of the tests
# would compile the project anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup develop wheel pictures demo local stop dynamodb test quick fixtures lists coverage mutate check bench synth bootstrap deploy adopt destroy clean

help: ## list the commands
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## /	/' | expand -t 12

setup: $(TOOLS) $(NODE_TOOLS) ## what bin/tidetable and the commands for a stage need: Python packages and the CDK's command line

develop: $(VENV) $(NODE) ## what the tests and checks need beside that

# Bytecode is not made at the installation, but by the first import of a module: most modules are never imported.
PIP := .venv/bin/pip --disable-pip-version-check install --no-compile
PINS := lambdas/requirements.txt lambdas/requirements-archive.txt

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.13 ..."; exit 1; }
	@echo "A virtual environment in .venv"
	@$(PYTHON) -m venv .venv || { echo "the venv module is missing: apt-get install python3-venv"; exit 1; }

$(DEMO): requirements-demo.txt $(PINS) | .venv/bin/pip
	@echo "Python packages of the demo: 30, about 110 MB to fetch"
	@$(PIP) --no-deps -r requirements-demo.txt
	@touch $@

$(TOOLS): requirements-tools.txt requirements-demo.txt $(PINS) | .venv/bin/pip
	@echo "Python packages of the command line and the CDK app: 60, about 170 MB to fetch"
	@$(PIP) -r requirements-tools.txt
	@touch $(DEMO) $@

$(VENV): requirements.txt requirements-tools.txt requirements-demo.txt $(PINS) lambdas/requirements-doors.txt lambdas/requirements-iceberg.txt | .venv/bin/pip
	@echo "Python packages of the tests and checks: about 140, 500 MB to fetch"
	@$(PIP) -r requirements.txt
	@touch $(DEMO) $(TOOLS) $@

# npm removes what it does not install, so an installation for the tests is not reduced.
$(NODE_TOOLS): package.json package-lock.json
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "Node.js 20 or newer is needed"; exit 1; }
	@echo "npm packages of the CDK's command line"
	@npm ci --no-fund --no-audit $(if $(wildcard $(NODE)),,--omit=dev)
	@touch $@ $(wildcard $(NODE))

$(NODE): package.json package-lock.json
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "Node.js 20 or newer is needed"; exit 1; }
	@echo "npm packages of the tests and checks"
	@npm ci --no-fund --no-audit
	@touch $(NODE_TOOLS) $@

demo: $(DEMO) $(NODE_TOOLS) $(NEEDS_JAR) ## the whole pipeline on this machine, with real data (KEEP=1 leaves it up)
	@$(PY) -m examples.earthquakes.demo $(LOCALLY) $(if $(filter-out 0 no false,$(KEEP)),--keep)

local: setup $(NEEDS_JAR) ## your own configuration on this machine, or over the running stage (CONFIG=my.toml, ENGINE=dynamodb-local for many events, FRESH=1 without the running stage's data)
	@$(PY) -m local.up $(LOCALLY) $(if $(filter-out 0 no false,$(FRESH)),--fresh)

stop: ## end what `make local` or `make demo KEEP=1` left up
	@$(PY) -m local.stop

dynamodb: $(JAR) ## fetch DynamoDB Local, which the tests and ENGINE=dynamodb-local use

$(JAR):
	@command -v java >/dev/null || { echo "DynamoDB Local needs Java 17 or newer: apt-get install openjdk-17-jre-headless"; exit 1; }
	@mkdir -p .dynamodb-local
	npm pack --silent --pack-destination .dynamodb-local $(subst -2,@2,$(SIMULATOR:.tgz=)) >/dev/null
	@$(PYTHON) -c 'import hashlib, sys; sys.exit(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest() != sys.argv[2])' \
		.dynamodb-local/$(SIMULATOR) $(SIMULATOR_SHA256) || { echo "$(SIMULATOR) is not what it was"; exit 1; }
	tar -xzf .dynamodb-local/$(SIMULATOR) -C .dynamodb-local --strip-components=2 package/emulator
	@rm .dynamodb-local/$(SIMULATOR); touch $@

test: develop $(JAR) ## every test, the deployed stack's among them
	$(PY) -m pytest

pictures: develop ## pictures of the console, for the documentation
	@PYTHONPATH=lambdas:. $(PY) -m tests.console.pictures

# What needs no server, no synthesised stack and no deployed stage, a folder per process.
QUICK := tests/core tests/ingest tests/lean tests/lifecycle tests/query
# Simulations of many calls, and comparisons with another database: 65 tests take a third of the time.
LONG := lifecycle/test_late_writes lifecycle/test_outages lifecycle/test_removal query/test_levels query/test_duckdb

quick: develop ## the pure core on the fakes, in less than a minute
	$(PY) -m pytest -q $(QUICK) $(LONG:%=--ignore=tests/%.py)

coverage: develop $(JAR) ## the lines of the product that the quick folders reach; a measurement, not a gate
	$(PY) -m coverage run --source=lambdas,cli,infra,clients/python/src --branch -m pytest -q -n 0 $(QUICK) tests/archive tests/rollups tests/feed tests/packs tests/large tests/doors tests/cli
	$(PY) -m coverage report --skip-covered --skip-empty

fixtures: develop ## write the fixtures of every stored format anew, after a change of a format
	@PYTHONPATH=lambdas:. $(PY) -m tests.formats.make

lists: develop ## write the console's list of statistics anew, after a change of the statistics
	@PYTHONPATH=lambdas:. $(PY) -m tests.console.lists

mutate: develop ## change the code by program, and list the changes that no test notices (SEED=7, PATHS="lambdas", COUNT=300)
	$(PY) -m tests.mutants $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(JOBS),--jobs $(JOBS)) \
		$(if $(filter-out 0 no false,$(ELSEWHERE)),--elsewhere) $(PATHS)

check: develop ## lint, format, types, direction of imports, the templates
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	node_modules/.bin/tsc -p console/tsconfig.json
	node_modules/.bin/eslint --config console/eslint.config.mjs console/js
	$(PY) -m pytest -q tests/test_imports.py tests/infra/lint_templates.py tests/test_workflows.py

bench: develop $(JAR) ## hot paths, suffixes and the bill, each against a named baseline
	$(PY) -m bench.ingest
	$(PY) -m bench.doors
	$(PY) -m bench.packs
	$(PY) -m bench.sensors
	$(PY) -m bench.notes
	$(PY) -m bench.rollups
	$(PY) -m bench.listings
	$(PY) -m bench.long_listings
	$(PY) -m bench.cold
	$(PY) -m bench.query
	$(PY) -m bench.past
	$(PY) -m bench.whole
	$(PY) -m bench.seal
	$(PY) -m bench.late_events
	$(PY) -m bench.large
	$(PY) -m bench.suffixes
	$(PY) -m bench.bill
	$(PY) -m bench.reconcile
	$(PY) -m bench.archive
	$(PY) -m bench.archive_files
	$(PY) -m bench.bulk_import
	$(PY) -m bench.restore
	$(PY) -m bench.console

synth: setup ## the CloudFormation template, without credentials (STAGE, CONFIG)
	$(CDK) synth -c stage=$(STAGE) $(WITH_CONFIG) $(WITH_ROLE)

bootstrap: setup ## what the CDK needs in the account and Region of the credentials, once
	$(CDK) bootstrap -c stage=$(STAGE) $(WITH_CONFIG) $(WITH_ROLE)

deploy: setup ## to AWS, with the credentials of the environment (STAGE=dev, CONFIG=tidetable.toml; a reader: ROLE=reader ORIGIN=us-east-1)
	$(CDK) deploy -c stage=$(STAGE) $(WITH_CONFIG) $(WITH_ROLE)

adopt: setup ## deploy a stage that was destroyed, and take back its catalog, archive and tables (STAGE, CONFIG)
	$(CDK) deploy -c stage=$(STAGE) $(WITH_CONFIG) --import-existing-resources

destroy: setup ## take a stage down; what its streams keep stays (STAGE, CONFIG)
	$(CDK) destroy -c stage=$(STAGE) $(WITH_CONFIG) $(WITH_ROLE)

wheel: develop ## the CDK construct as a package, with its Lambda code, in dist/ (PLATFORMS="arm64 x86_64 local")
	@rm -rf dist
	PYTHONPATH=lambdas:. $(PY) -m cdk.bundle $(PLATFORMS)
	.venv/bin/pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir dist ./cdk

clean: ## what was built
	rm -rf .build dist cdk.out .mypy_cache .ruff_cache .pytest_cache .hypothesis
