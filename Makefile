# make help lists the targets. Everything that is built or fetched lies in $(CACHE), outside the
# repository, so that a second run starts in seconds.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export GPUSTACK_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpustack
VENV := $(GPUSTACK_CACHE)/venv-$(shell sha256sum requirements.lock | cut -c1-12)
AUDIT := $(GPUSTACK_CACHE)/audit-$(shell sha256sum requirements-audit.lock | cut -c1-12)
PYTHON := $(VENV)/bin/python
STEP := python3 tests/step.py
# A short folder, because the path of a unix socket has at most 107 characters.
run_tests = @folder=$$(mktemp -d /tmp/gs.XXXX); trap 'rm -rf "$$folder"' EXIT; $(STEP) $(1) -- \
  pytest -q -n $(3) --dist loadfile --max-worker-restart 0 --durations 30 --durations-min 2 --basetemp="$$folder/t" $(if $(PROFILE),--profile $(PROFILE)) -m $(2) tests
COMPILE := uv pip compile -q --generate-hashes --no-annotate --python-version 3.11 \
  --custom-compile-command "make lock"
export PATH := $(VENV)/bin:$(PATH)
# ansible refuses to start under LC_ALL=C
export LC_ALL := C.UTF-8
# Bytecode lies in the cache: half of a Python program's start is its compilation, and the checkout stays clean.
export PYTHONPYCACHEPREFIX := $(GPUSTACK_CACHE)/pycache
unexport PYTHONDONTWRITEBYTECODE
export PYTHONUNBUFFERED := 1

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## ---- set-up ---------------------------------------------------------------------------------

# The folder is named after the lock file's content, so no file's time matters.
$(VENV)/.complete:
	@$(STEP) setup -- tests/setup.sh $(VENV)

.PHONY: setup
setup: $(VENV)/.complete ## Install the tools that the other targets use

.PHONY: path
path: ## Print the folder of what setup installs, Ansible among it, for your PATH
	@echo $(VENV)/bin

.PHONY: lock
lock: setup ## Resolve the dependencies of pyproject.toml again
	$(COMPILE) pyproject.toml --all-extras --group ansible --group lint --group docs --group test --group hosts --group bench \
	  -o requirements.lock
	$(COMPILE) --group setup -o requirements-setup.lock
	$(COMPILE) --group audit -o requirements-audit.lock
	$(COMPILE) pyproject.toml --extra agent --extra extender --extra cli --group hosts -o requirements-hosts.lock

.PHONY: native
native: setup ## Build the hook and the simulated driver
	@$(MAKE) --no-print-directory -C hook PYTHON=$(PYTHON)
	@$(MAKE) --no-print-directory -C tests/simgpu

.PHONY: bundle
bundle: native ## Build the offline installation of hosts, into dist/ (OPTIONS="--python 3.11 --arch x86_64": for such hosts alone)
	@$(STEP) bundle -- $(PYTHON) playbooks/scripts/bundle.py $(OPTIONS)

.PHONY: collection
collection: setup ## The Ansible collection gpustack.gpustack, into dist/
	@$(STEP) collection -- $(PYTHON) playbooks/scripts/collection.py

.PHONY: release
release: native ## The release of this version, into dist/release: wheel, bundle, collection, one archive of all (OPTIONS="--sign KEY")
	@$(STEP) release -- $(PYTHON) playbooks/scripts/release.py $(OPTIONS)

.PHONY: proto
proto: setup ## Generate the gRPC code from our .proto files
	$(PYTHON) -m tests.adapters.regenerate

## ---- checks ---------------------------------------------------------------------------------

LINTERS := ruff ruff-format mypy layers yamllint ansible-lint shellcheck clang-format codespell
# make hooks runs the same ones before a commit (.pre-commit-config.yaml).
.PHONY: lint $(LINTERS)
lint: $(LINTERS) ## Style, types, layers, playbooks

ruff: setup
	@$(STEP) $@ -- ruff check .
ruff-format: setup
	@$(STEP) $@ -- ruff format --check .
mypy: setup
	@$(STEP) $@ -- mypy
layers: setup
	@$(STEP) $@ -- lint-imports
yamllint: setup
	@$(STEP) $@ -- yamllint --strict .
# The slowest by far: it runs where what it reads has changed since it passed.
ansible-lint: build/ansible-lint
LINTED := $(wildcard $(shell git ls-files --cached --others --exclude-standard \
  '*.yml' '*.j2' roles molecule .ansible-lint ansible.cfg requirements.lock))
build/ansible-lint: $(LINTED) | setup
	@$(STEP) ansible-lint -- ansible-lint --offline
	@mkdir -p build && touch $@
shellcheck: setup
	@$(STEP) $@ -- bash -o pipefail -c 'git ls-files -z -- "*.sh" .ci/run | xargs -0r shellcheck'
clang-format: setup
	@$(STEP) $@ -- bash -o pipefail -c 'git ls-files -z -- "*.c" "*.h" | xargs -0r clang-format --dry-run --Werror'
codespell: setup
	@$(STEP) $@ -- codespell

.PHONY: docs
docs: setup ## The pages of docs/ as a site, into build/site; fails on a broken link
	@$(STEP) docs -- mkdocs build
	@! grep -rhoE '<(script|link|img)[^>]* (src|href)="?https?:[^ >]*' build/site --include='*.html'

.PHONY: pictures
pictures: setup ## docs/images/dashboard.png as today's page looks
	@$(STEP) pictures -- pytest -q tests/extender/page/test_page_access.py -m "" -k picture
	cp build/dashboard/dashboard.png docs/images/

.PHONY: hooks
hooks: setup ## Let git run the linters before each commit
	pre-commit install

.PHONY: unit
# Four workers on two cores: the tests wait for half of their time.
unit: native ## Model, wire, adapters, agent, extender, hook: no hosts needed
	@$(MAKE) --no-print-directory -C hook PYTHON=$(PYTHON) tests
	@$(MAKE) --no-print-directory -C tests/simgpu tests
	$(call run_tests,unit,"not testbed and not gpu and not long and not clock and not nightly",4)

.PHONY: long
long: native ## The long tests, which `make check` leaves out
	$(call run_tests,long,"long and not clock and not nightly",2)

.PHONY: clock
clock: native ## The tests whose verdict rests on a clock: they run alone
	@$(STEP) clock -- pytest -q -m clock --reruns 4 tests

.PHONY: nightly
nightly: native testbed-build ## Properties with 20 000 random examples each, 10⁶ inputs a fuzzer, more of what is long, and a cluster of Kubernetes 1.34
	@$(STEP) nightly -- pytest -q -n 2 --dist load -m "(hypothesis or nightly) and not testbed and not gpu" \
	  --profile nightly tests
	@$(MAKE) --no-print-directory api-server e2e TESTBED=testbed TESTBED_KUBERNETES=1.34
	@$(MAKE) --no-print-directory upgrades
	@$(MAKE) --no-print-directory debian13

.PHONY: soak
soak: testbed-build ## A million steps of the stateful tests; ten minutes of rollouts under kills
	@$(STEP) soak-rollouts -- pytest -v -p no:randomly -m nightly tests/e2e/test_5_rollouts.py
	@$(STEP) soak -- pytest -q -n 2 --dist load -rP --profile nightly \
	  tests/extender/stateful/test_cluster.py tests/agent/stateful/test_agent.py

.PHONY: outlook
outlook: native ## The HTTP server's tests with the newest gunicorn, beyond the bound of pyproject.toml
	@$(STEP) outlook -- tests/outlook.sh $(VENV) $(GPUSTACK_CACHE)/outlook

.PHONY: audit
audit: setup ## Known vulnerabilities of the locked packages; says SKIPPED and fails where no database answers
	@$(STEP) audit -- tests/audit.sh $(VENV) $(AUDIT) requirements*.lock

.PHONY: check
check: $(filter-out ansible-lint,$(LINTERS)) ## All checks before a commit: linters, and unit tests with 50 examples a property
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line PROFILE=dev unit ansible-lint  # which takes one core

.PHONY: testbed-prepare
testbed-prepare: setup
	@$(STEP) prepare -- $(PYTHON) -m tests.testbed prepare

.PHONY: testbed-build
testbed-build: testbed-prepare bundle
	@$(STEP) testbed-build -- $(PYTHON) -m tests.testbed build

.PHONY: system
# Check mode on fresh hosts is of system-all: it takes as long as the rollout. So is a driver that is adopted.
SCENARIOS := --exclude check --exclude brownfield
system: testbed-build ## Molecule scenarios on systemd hosts
	@$(STEP) system-reset -- molecule destroy  # the rest of an interrupted run
	@$(STEP) system -- molecule test --all $(SCENARIOS)

TESTBED := testbed and not nightly
.PHONY: policy-scheduler
policy-scheduler: testbed-build
	@$(STEP) policy-scheduler -- $(PYTHON) -m tests.testbed build --policy-scheduler

.PHONY: api-server
api-server: policy-scheduler ## Policies, scheduling and faults on a real API server and scheduler, without hosts
	@for suite in admission scheduling faults; do \
	  $(STEP) $$suite -- pytest -v -p no:randomly --durations 10 -m "$(TESTBED)" tests/$$suite; \
	done

.PHONY: e2e
e2e: policy-scheduler ## site.yml on a real cluster, pods that allocate and launch
	@$(STEP) $@ -- pytest -v -p no:randomly --durations 10 -m "$(TESTBED)" tests/e2e

.PHONY: upgrades
upgrades: testbed-build ## From 0.1.0 to this tree and back under load, another driver, a host that leaves
	@$(STEP) upgrades -- pytest -v -p no:randomly --durations 10 -m testbed tests/upgrades

.PHONY: debian13
debian13: export GPUSTACK_TESTBED_SUITE := trixie
debian13: testbed-build ## site.yml, shares and an uninstallation on hosts of Debian 13, with Python 3.13
	@$(STEP) $@ -- pytest -v -p no:randomly -m testbed \
	  tests/e2e/test_1_rollout.py tests/e2e/test_2_shares.py tests/e2e/test_9_schedulers/test_onebox.py

.PHONY: system-all
system-all: TESTBED := testbed
system-all: SCENARIOS :=
system-all: system api-server e2e upgrades ## Everything that needs hosts, with the examples that make test has no time for

.PHONY: system-slow
system-slow: testbed-prepare ## Debian's own NVIDIA driver: install, another version, uninstall, adopt (needs Debian's archive; half an hour)
	@$(STEP) $@ -- pytest -v -p no:randomly -x -m testbed tests/debian_driver

# The hosts' suites wait for half of their time and leave the others a core. Three at a time were no
# faster: no time is left then, and each takes twice as long.
.PHONY: side-by-side
ifdef SIDE_BY_SIDE
api-server: long
e2e: system
endif
side-by-side: api-server e2e

# The linters take one core of two, and the unit tests wait for half of their time.
.PHONY: test
test: ## Everything, with its own set-up
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line unit lint docs
	@$(MAKE) --no-print-directory --jobs=1 clock testbed-build
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line SIDE_BY_SIDE=yes side-by-side

.PHONY: bench
bench: bundle testbed-build ## Figures into docs/benchmarks.md
	@$(STEP) bench -- $(PYTHON) -m tests.benchmarks

.PHONY: gpu-bundle
gpu-bundle: native ## The files for checks on a card, in build/gpu (PYTHON_THERE=3.12: for a machine without a network)
	@$(STEP) gpu-bundle -- $(PYTHON) -m tests.gpu.bundle $(if $(PYTHON_THERE),--python $(PYTHON_THERE))

.PHONY: gpu
gpu: gpu-bundle ## Checks on a real card; says so where no card answers (VARIABLES=inventories/own/group_vars/gpu_nodes: what the agent is told of it)
	@$(STEP) gpu -- pytest -v -m gpu $(if $(VARIABLES),--gpu-variables=$(VARIABLES)) tests/gpu

## ---- demo -----------------------------------------------------------------------------------

.PHONY: demo
demo: testbed-build ## A cluster of simulated hosts and cards, rolled out by site.yml
	@$(STEP) demo -- $(PYTHON) -m tests.demo up

.PHONY: demo-shell
demo-shell: setup ## A shell with kubectl on the demo's cluster
	@$(PYTHON) -m tests.demo shell

.PHONY: demo-down
demo-down: setup ## Stop the demo and remove its hosts
	@$(PYTHON) -m tests.demo down

.PHONY: clean
clean: ## Remove the outputs of builds in the repository's folder
	rm -rf dist build hook/out tests/simgpu/out *.egg-info .mypy_cache .ruff_cache .pytest_cache \
	  .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
