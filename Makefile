# The documented commands. `make` alone lists them.
PYTHON ?= python3
STAGE ?= dev
VENV := .venv/.installed
NODE := node_modules/.installed
# The official engine, which is published as a jar inside a package of npm's; only the tests need it.
SIMULATOR := amplify-dynamodb-simulator-2.9.30.tgz
SIMULATOR_SHA256 := 3503ffac19f183407909fecdacf4db51ab1fdad1da7b2f177016670b2d80e4b9
JAR := .dynamodb-local/DynamoDBLocal.jar
PY := .venv/bin/python
CDK := JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1 node_modules/.bin/cdk

.PHONY: help setup demo stop test check bench synth bootstrap deploy adopt destroy clean

help: ## list the commands
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## /	/' | expand -t 12

setup: $(VENV) $(NODE) ## the virtual environment and the pinned CDK command line

$(VENV): requirements.txt lambdas/requirements.txt lambdas/requirements-archive.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.13 ..."; exit 1; }
	@test -x .venv/bin/pip || $(PYTHON) -m venv .venv || { echo "the venv module is missing: apt-get install python3-venv"; exit 1; }
	.venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(NODE): package.json package-lock.json
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "Node.js 20 or newer is needed"; exit 1; }
	npm ci --silent --no-fund --no-audit
	@touch $@

demo: setup ## the whole pipeline on this machine, with real data (KEEP=1 leaves it up)
	@$(PY) -m examples.earthquakes.demo $(if $(KEEP),--keep)

stop: ## end what `make demo KEEP=1` left up
	@$(PY) -m local.stop

$(JAR):
	@command -v java >/dev/null || { echo "The tests run DynamoDB Local, which needs Java 17 or newer: apt-get install openjdk-17-jre-headless"; exit 1; }
	@mkdir -p .dynamodb-local
	npm pack --silent --pack-destination .dynamodb-local $(subst -2,@2,$(SIMULATOR:.tgz=)) >/dev/null
	@$(PYTHON) -c 'import hashlib, sys; sys.exit(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest() != sys.argv[2])' \
		.dynamodb-local/$(SIMULATOR) $(SIMULATOR_SHA256) || { echo "$(SIMULATOR) is not what it was"; exit 1; }
	tar -xzf .dynamodb-local/$(SIMULATOR) -C .dynamodb-local --strip-components=2 package/emulator
	@rm .dynamodb-local/$(SIMULATOR); touch $@

test: setup $(JAR) ## every test, the deployed stack's among them
	$(PY) -m pytest

check: setup ## lint, format, types, direction of imports
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	$(PY) -m pytest -q tests/test_imports.py

bench: setup $(JAR) ## hot paths, suffixes and the bill, each against a named baseline
	$(PY) -m bench.ingest
	$(PY) -m bench.cold
	$(PY) -m bench.query
	$(PY) -m bench.large
	$(PY) -m bench.suffixes
	$(PY) -m bench.bill
	$(PY) -m bench.reconcile
	$(PY) -m bench.archive

synth: setup ## the CloudFormation template, without credentials
	$(CDK) synth -c stage=$(STAGE)

bootstrap: setup ## what the CDK needs in the account and Region of the credentials, once
	$(CDK) bootstrap -c stage=$(STAGE) $(if $(CONFIG),-c config=$(CONFIG))

deploy: setup ## to AWS, with the credentials of the environment (STAGE=dev, CONFIG=tidetable.toml)
	$(CDK) deploy -c stage=$(STAGE) $(if $(CONFIG),-c config=$(CONFIG))

adopt: setup ## deploy a stage that was destroyed, and take back its catalog, archive and tables (STAGE=dev, CONFIG=tidetable.toml)
	$(CDK) deploy -c stage=$(STAGE) $(if $(CONFIG),-c config=$(CONFIG)) --import-existing-resources

destroy: setup ## take a stage down; what its streams keep stays
	$(CDK) destroy -c stage=$(STAGE)

clean: ## what was built
	rm -rf .build cdk.out .mypy_cache .ruff_cache .pytest_cache .hypothesis
