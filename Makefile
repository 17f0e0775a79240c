# make run    install into .venv, learn the tutoring problem to a certificate and as printed, save figures
# make serve  install into .venv, then serve invented students over HTTP: watch on a page at the address it prints
# make test   install into .venv, then lint, types, doctests and tests
# make quick  the same without the tests that take long or compile much: under a minute
# make lowest every command once, with the lowest versions of all dependencies that are allowed
# make browser  the page of the service in the system's Chromium
# make docs   the documentation site, in docs/_build/html; warnings and dead links are errors
# make links  follow the links that lead out of the site (needs a network)
# make verify long checks: statistics, crashes, hostile requests, and all tests at full length (over an hour)
# make report all studies (about half an hour), and docs/report.html from them; QUICK=1: a small
#             version, in results/quick
# make bench  benchmarks, printed; those against peers go to BENCHMARKS.md
# make alternatives  what a user would pick instead (Q-learning, DQN, PPO), in benchmarks/alternatives.md

VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
PEERS := .venv-peers
RLBERRY := .venv-rlberry
SB3 := .venv-sb3
PORT := 8765

# modules that are parsed anew at every start cost each command a second
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run serve quick test lowest browser lint format docs links verify report bench alternatives clean

$(BIN)/python:
	python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# with what the service needs
$(VENV)/.installed-serve: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[serve]"
	touch $@ $(VENV)/.installed

# with what the evaluation needs
$(VENV)/.installed-evaluation: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[evaluation]"
	touch $@ $(VENV)/.installed

# with what tests and documents need
$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[dev]"
	touch $@ $(VENV)/.installed $(VENV)/.installed-serve

run: $(VENV)/.installed
	mkdir -p out
	@echo "== until the policy is certified"
	$(BIN)/ucfh learn tutoring --epsilon 0.1 --delta 0.1 --plot out/certified.png --force
	@echo "== the algorithm as printed"
	$(BIN)/ucfh learn tutoring --epsilon 0.1 --delta 0.1 --paper --plot out/tutoring.png --force

# Ctrl-C ends it
serve: $(VENV)/.installed-serve
	$(BIN)/python docs/tutorials/online.py --port $(PORT)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# tests of one file run in one process: so what they need is compiled once
test: lint
	$(BIN)/pytest -n 2 --dist loadfile
	@echo "not run here: make browser (needs Chromium), make verify (over an hour)"

# in an environment of its own, made anew
lowest:
	rm -rf $(LOWEST)
	python3 -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable ".[all]"
	$(LOWEST)/bin/python tests/smoke.py

# needs the system's Chromium
browser: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2 tests/browser

# what a change breaks most often, in less than a minute once code is compiled
quick: lint
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow and not verify" tests

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# nothing is kept between builds: parts of pages come from the package, which Sphinx does not watch
docs: $(VENV)/.installed-dev
	rm -rf docs/_build
	$(BIN)/sphinx-build -q -n -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/_ext/check.py docs/_build/html

links: $(VENV)/.installed-dev
	$(BIN)/sphinx-build -q -b linkcheck docs docs/_build/links

# the soundness sweep: 20,000 runs in about 20 minutes, then its planted bugs
verify: $(VENV)/.installed-dev
	PYTHONPATH=tests $(BIN)/python -m sweep
	$(BIN)/pytest -n 2 -rP tests/slow
	UCFH_LONG_TESTS=1 $(BIN)/pytest -n 2 --dist loadfile -m "verify or not verify" tests

# completed jobs are kept in results: an interrupted run continues
ifdef QUICK
report: $(VENV)/.installed-evaluation
	$(BIN)/python -m evaluation --quick --out results/quick
else
report: $(VENV)/.installed-evaluation
	$(BIN)/python -m evaluation --out results
	cp results/report.html results/mistakes.svg results/baselines.svg results/stopping_rules.svg docs
endif

$(PEERS)/.installed: benchmarks/peers/requirements.txt
	python3 -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

# 0.6.0 goes next to 0.7.3, which lacks some of its agents
$(RLBERRY)/.installed: benchmarks/peers/requirements-rlberry.txt
	python3 -m venv $(RLBERRY)
	$(RLBERRY)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	$(RLBERRY)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--upgrade --target $(RLBERRY)/older rlberry==0.6.0
	touch $@

bench: $(VENV)/.installed-dev $(PEERS)/.installed $(RLBERRY)/.installed
	PYTHONPATH=tests $(BIN)/python benchmarks/run.py

$(SB3)/.installed: benchmarks/peers/requirements-sb3.txt
	python3 -m venv $(SB3)
	$(SB3)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

# runs are kept in results/alternatives.jsonl: what was interrupted continues
alternatives: $(VENV)/.installed-dev $(SB3)/.installed
	$(BIN)/python benchmarks/bench_alternatives.py

clean:
	rm -rf $(VENV) $(LOWEST) $(PEERS) $(RLBERRY) $(SB3) out .mypy_cache .ruff_cache .pytest_cache .hypothesis docs/_build
