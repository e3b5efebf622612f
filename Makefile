# Everything starts from a bare checkout: python3 (3.11 or newer, with venv) and make are enough. `eval` looks once, and only
# where a recipe needs to know.
PYTHON = $(eval PYTHON := $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v $$p; break; }; done))$(PYTHON)
BIN = .venv/bin
STAMP = .venv/.installed
TYPES_STAMP = .venv/.types-installed
DOCS_STAMP = .venv/.docs-installed

# $(1): the lock to install from. A demo's packages install in half the time that the tools of development take. kcr itself is built
# by the locked setuptools, so that no release of another project reaches a fresh checkout before `make lock` has tried it.
define install
	@test -n "$(PYTHON)" || { echo "make: no python3 of version 3.11 or newer with the venv module is on the PATH; install one (on Debian: python3 and python3-venv)" >&2; exit 1; }
	@echo "make: installing kcr and the packages of $(1) into .venv, once" >&2
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock -r $(1) >&2
	@# What a build left here would hide new entry points: findings/setuptools_stale_egg_info.sh.
	@rm -rf kcr.egg-info devcluster/kcr_devcluster.egg-info
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e devcluster >&2
	@touch $(BIN)/kcr
endef

# What `make image` builds, and where it goes: an archive, or with IMAGE_OUTPUT=--push to the registry that IMAGE names.
IMAGE = kcr
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
PLATFORMS = linux/amd64,linux/arm64
IMAGE_OUTPUT = --output type=oci,dest=dist/kcr-$(VERSION).tar
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
# $(1): the extra of kcr; $(2): the lock, without kcr and kcr-devcluster themselves.
define lock
	printf '%s\n' '-e .[$(1)]' '-e ./devcluster' | $(COMPILE) --no-emit-package kcr --no-emit-package kcr-devcluster --output-file $(2) $(3) -
endef

.PHONY: demo demo-example demo-website test tests newest lowest pythons kubernetes-versions hint soak mutate lint style types workflows clean image lock audit
.PHONY: docs version release publish kind card fuzz-jobs parity clients

# The Job in Perl where perl can: perl-base has no bignum, and of Math::BigFloat, 1.999830 (perl 5.36) fails at so many digits,
# 1.999831 never ends, 1.999832 prints zeros. Nothing is computed to find out: that takes seconds. Pods get no PERL5LIB.
PI_JOB = $(eval PI_JOB := $(shell PERL5LIB= PERL5OPT= perl -MMath::BigFloat -Mbignum=bpi \
	-e 'exit Math::BigFloat->VERSION =~ /^1\.99983[012]$$/' 2>/dev/null && echo examples/pi.yaml || echo examples/pi-python.yaml))$(PI_JOB)

demo: $(BIN)/kcr
	@test $(PI_JOB) = examples/pi.yaml || \
	echo "demo: the perl of this machine cannot compute 2,000 digits of pi, so $(PI_JOB) runs: the same Job in Python" >&2
	@$(BIN)/kcr dev -f $(PI_JOB) --wait

demo-example: $(BIN)/kcr
	@$(BIN)/python -m examples.configmap_copier.demo

demo-website: $(BIN)/kcr
	@$(BIN)/kcr dev --controllers examples.website.webhook:setup -f examples/website/manifests

# Stories of faults for KCR_CARD_MINUTES (60) in KCR_CARD_WORKERS processes; the table goes to the terminal and to
# docs/reliability.md. With STORY=jobs/17 one of them again, with the history of its writes.
card: $(STAMP)
	@$(BIN)/python -m tests.chaos.card $(if $(STORY),$(STORY),--write)

# Scenarios of Jobs drawn by seed, judged by laws in virtual time, and beside kube-controller-manager where KUBEBUILDER_ASSETS
# has it; with SEED=n one of them, told step by step.
fuzz-jobs: $(STAMP)
	@$(if $(SEED),$(BIN)/python -m tests.chaos.fuzz_jobs $(SEED),$(BIN)/pytest -n auto tests/chaos/fuzz_jobs -m "soak or not soak")

# Asks the embedded server what the corpus of tests/apiserver/parity asks, beside kube-apiserver where KUBEBUILDER_ASSETS has one:
# the share by area, and each row that differs. AREA=cel-types, ROW=text of its key.
parity: $(STAMP)
	@$(BIN)/python -m tests.apiserver.parity $(if $(AREA),--area $(AREA)) $(if $(ROW),--row '$(ROW)')

# Asks clients in Python and JavaScript the same things on `kcr dev`, and on kube-apiserver where KUBEBUILDER_ASSETS has one, and
# writes docs/reference/clients.md. CLIENT=kr8s asks one of them. Without npm those in JavaScript are left out.
clients: $(STAMP)
	@$(PYTHON) -m venv .venv-clients
	@.venv-clients/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-clients.lock
	@if command -v npm >/dev/null; then cd tests/clients && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error; fi
	@$(BIN)/python -m tests.clients $(if $(CLIENT),--client $(CLIENT))

# mypy has one core where its cache is empty, for half a minute; the tests have the other one.
test: hint style
	@$(MAKE) --no-print-directory --jobs=2 types tests

tests: $(STAMP)
	@# On a fresh clone each worker would compile all tests. One process does it first.
	@test -n "$$(find tests -name '*-pytest-*.pyc' -print -quit)" || $(BIN)/pytest --collect-only -qq >/dev/null
	$(BIN)/pytest -n auto --dist worksteal -m "not soak"

# Both ends of the ranges in pyproject.toml, each in an environment of its own: the newest versions, and the lowest of the packages
# that kcr needs to run. Neither is in the lock.
newest: UPGRADE = --resolution highest -e '.[dev]'
lowest: UPGRADE = --resolution lowest-direct -e '.[speed]'
newest lowest: $(STAMP)
	@$(PYTHON) -m venv .venv-$@
	@$(BIN)/pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python .venv-$@/bin/python --require-hashes -r requirements-build.lock -r requirements-dev.lock
	@$(BIN)/uv pip install --quiet --python .venv-$@/bin/python --upgrade $(UPGRADE) -e devcluster
	@# The official client asks for newer packages than kcr does.
	$(if $(filter lowest,$@),@$(BIN)/uv pip install --quiet --python .venv-$@/bin/python --no-deps kubernetes==37.0.0)
	.venv-$@/bin/pytest -n auto --dist worksteal -m "not soak"

# The unit tests with each Python that is here, in environments of their own: annotations and asyncio differ between versions.
pythons: $(STAMP)
	@set -e; for p in python3.11 python3.12 python3.13 python3.14 python3.15; do \
	$$p -c 'import ensurepip' 2>/dev/null || continue; \
	$$p -m venv .venv-$$p; \
	.venv-$$p/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock -r requirements-dev.lock; \
	.venv-$$p/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e devcluster; \
	.venv-$$p/bin/pytest -n auto --dist worksteal tests/unit tests/boundary -m "not soak"; done

# The tests of the API as the newest Kubernetes that is served, and those of kubectl as each version of both: for Linux on x86-64.
kubernetes-versions: $(STAMP)
	KCR_KUBERNETES_VERSION=1.37 $(BIN)/pytest -n auto --dist worksteal -m "not soak" tests/apiserver tests/controllers tests/runtime tests/unit
	@$(BIN)/python -m tools.kubectls .venv-kubectls
	@set -e; for served in 1.36 1.37; do for kubectl in .venv-kubectls/*; do echo "Kubernetes $$served, kubectl $${kubectl##*/}"; \
	PATH=$(CURDIR)/$$kubectl:$$PATH KCR_KUBERNETES_VERSION=$$served \
	$(BIN)/pytest -n auto -m "soak or not soak" tests/e2e/test_kubectl*.py; done; done

hint:
	@echo "make: everything takes some seven minutes on two cores; while working, the unit tests take one: $(BIN)/pytest tests/unit -q" >&2

soak: $(STAMP) $(DOCS_STAMP)
	$(BIN)/pytest -n auto --dist worksteal -m "soak or law" --timeout 0 --verbose --hypothesis-profile soak
	@$(MAKE) --no-print-directory newest
	@$(MAKE) --no-print-directory lowest
	@$(MAKE) --no-print-directory pythons
	@$(MAKE) --no-print-directory kubernetes-versions

# Changes one place of the code at a time, and looks whether a test notices: KCR_MUTANTS=215, KCR_MUTATE_SEED=0, KCR_MUTATE_JOBS=1.
mutate: $(STAMP)
	@$(BIN)/python -m tools.mutate

# The type checkers of users take twenty seconds, the schemas of workflows two: `make test` leaves them out.
lint: style types workflows $(TYPES_STAMP)
	$(BIN)/python -m tools.user_types

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# The schemas are those that check-jsonschema ships.
workflows: $(STAMP)
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yaml
	$(BIN)/check-jsonschema --quiet --builtin-schema custom.github-workflows-require-timeout .github/workflows/*.yaml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml

types: $(STAMP)
	$(BIN)/mypy

$(BIN)/kcr: pyproject.toml devcluster/pyproject.toml requirements-build.lock requirements-demo.lock
	$(call install,requirements-demo.lock)

$(STAMP): pyproject.toml devcluster/pyproject.toml requirements-build.lock requirements-dev.lock tools/helm.py tools/layers.py tools/browser.py
	$(call install,requirements-dev.lock)
	@# Each of the processes that the tests start would compile kcr, until one has.
	@$(BIN)/python -m compileall -q -j 0 kcr controllers devcluster
	@$(BIN)/python -m tools.helm
	@$(BIN)/python -m tools.browser
	@touch $@

# The type checkers of users. Where one of them has no wheel for the machine, what is installed is run.
$(TYPES_STAMP): $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[types]' >&2 || echo "make: type checkers are missing" >&2
	@touch $@

$(DOCS_STAMP): $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]' >&2
	@touch $@

# The documentation of VERSION as a site, with its search and without a server: dist/site/index.html. Other versions in it stay. Before
# that the documents are checked: names, blocks that no test runs, links, the reference, and pictures older than what they show.
docs: $(DOCS_STAMP)
	@$(BIN)/pytest -q $(addprefix tests/docs/test_,names.py blocks.py links.py reference.py public_api.py)
	@$(BIN)/python -m tools.site $(VERSION)

image:
	@mkdir -p dist
	docker buildx build --platform $(PLATFORMS) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(shell git rev-parse HEAD) \
		--tag $(IMAGE):$(VERSION) $(IMAGE_OUTPUT) .

# The newest versions that pyproject.toml allows, for all supported versions of Python: of the tools of development, and from them
# those of the demo, of the image, and to build the wheel.
lock: $(STAMP)
	$(BIN)/pip install --quiet uv
	$(call lock,dev,requirements-dev.lock,--upgrade)
	$(call lock,embedded,requirements-demo.lock,--upgrade --constraint requirements-dev.lock)
	$(COMPILE) --upgrade --constraint requirements-dev.lock --extra speed --extra secure --output-file requirements.lock pyproject.toml
	$(COMPILE) --upgrade --no-annotate --output-file requirements-clients.lock tests/clients/requirements.in
	echo 'setuptools>=77' | $(COMPILE) --upgrade --constraint requirements-dev.lock --output-file requirements-build.lock -

# Writes VERSION into all files that have it, and begins its section in the changelog.
version: $(STAMP)
	@$(BIN)/python -m tools.release.version $(VERSION)

# All files of a release and their papers, in dist/VERSION. Offline, where the build backend of the lock is installed.
release: $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
	@$(BIN)/python -m tools.release $(VERSION)

# In a workflow that may ask for an identity: signs the checksums and what is published with it, and publishes as it.
publish: $(STAMP)
	$(BIN)/pip install --quiet sigstore uv
	$(BIN)/sigstore sign dist/$(VERSION)/*.whl dist/$(VERSION)/*.tar.gz dist/$(VERSION)/*.tgz dist/$(VERSION)/SHA256SUMS
	$(BIN)/uv publish --trusted-publishing always dist/$(VERSION)/*.whl dist/$(VERSION)/*.tar.gz
	gh release create v$(VERSION) --title 'kcr $(VERSION)' --verify-tag --notes-file dist/$(VERSION)/notes.md dist/$(VERSION)/*

# Upstream's end-to-end tests of Job and CronJob, with kcr in place of the controllers of a kind cluster. Needs docker, kind,
# kubectl and helm; KUBERNETES is the version of kind's node image and of upstream's test image.
KUBERNETES = v1.36.1
kind: PLATFORMS = linux/amd64
kind: IMAGE_OUTPUT = --load
kind: image
	kind create cluster --name kcr --image kindest/node:$(KUBERNETES) --config .ci/kind.yaml --kubeconfig dist/kind.kubeconfig
	kind load docker-image --name kcr $(IMAGE):$(VERSION)
	helm upgrade --install kcr charts/kcr --kubeconfig dist/kind.kubeconfig --namespace kcr-system --create-namespace --wait \
		--set image.repository=$(IMAGE),takeOver=true --set 'controllers={job,ttl,cronjob}'
	docker run --rm --network host --volume $(CURDIR)/dist/kind.kubeconfig:/kubeconfig:ro \
		--entrypoint /usr/local/bin/ginkgo registry.k8s.io/conformance:$(KUBERNETES) --procs=4 --timeout=2h \
		'--focus=\[sig-apps\] (Job|CronJob)' '--skip=\[Disruptive\]|\[Feature:|\[Alpha\]' /usr/local/bin/e2e.test -- \
		--kubeconfig=/kubeconfig --provider=skeleton
	kind delete cluster --name kcr

# Licences and known vulnerabilities of the dependencies; see tools/audit.py for the exit codes.
audit: $(STAMP)
	$(BIN)/pip install --quiet pip-audit
	@$(BIN)/python -m tools.audit

clean:
	rm -rf .venv .venv-* build dist *.egg-info devcluster/build devcluster/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
