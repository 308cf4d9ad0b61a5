# Each target sets up what it needs: a bare checkout, Python 3.11 and `make` are enough.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
APT := openssh-server openssh-client util-linux tmux prometheus prometheus-alertmanager

.PHONY: install demo test check lint format system lock clean

install: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { echo "oncall needs Python 3.11: no '$(PYTHON)' here; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Everything that only the tests need.
$(VENV)/.tests: $(VENV)/.installed requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	@touch $@

# The tests' servers, from Debian's packages; without root it is said what is missing, and those tests skip.
system:
	@sh tests/system-packages.sh $(APT)

demo: install
	$(BIN)/oncall demo --triage

# The lab, which takes longest, comes first; it waits half of its time, hence one process more than two cores.
test: $(VENV)/.tests system lint
	$(BIN)/python -m pytest --numprocesses=3 --dist=worksteal tests/lab tests/console tests/unit tests/test_imports.py

lint: $(VENV)/.tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Pin anew what pyproject.toml allows; run it on purpose and read the difference.
lock:
	sh tests/lock.sh $(PYTHON)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
