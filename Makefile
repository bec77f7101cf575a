# Every target builds the environment it needs in .venv; nothing else on the machine is touched.
# Some machines switch the byte-code cache off; without it every command would compile torch anew.
export PYTHONDONTWRITEBYTECODE :=
PYTHON ?= python3
BIN := .venv/bin
# uv does not read pip's settings: hand it the folder pip has been told to look for wheels in.
UV := UV_FIND_LINKS="$${UV_FIND_LINKS:-$$($(BIN)/python -m pip config get global.find-links 2>/dev/null)}" $(BIN)/uv

.PHONY: demo test quick check lint types layers examples soak bench-maps reproduce clean

demo: .venv/.installed
	$(BIN)/hotvae demo --threads 2

test: .venv/.installed-test
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not ray"
	$(BIN)/python -m pytest tests/scale -m ray  # one cluster, not one for each process of the tests

# While you write: what takes long, needs real data or a browser, the experiments of paper/ and the examples of docstrings
# are left to `make test`.
quick: .venv/.installed-test
	$(BIN)/python -m pytest tests --ignore=tests/paper -n auto --dist worksteal -m "not slow and not data and not browser and not ray"

check: lint types layers test examples

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.installed-dev
	$(BIN)/mypy

layers: .venv/.installed-dev
	$(BIN)/lint-imports

examples: .venv/.installed-test
	for script in examples/*.py; do echo "== $$script"; $(BIN)/python -W error $$script || exit 1; done

# 20 million cells x 100 species mapped with one thread, beside a random forest: hours, 12 GB of disk for a while.
bench-maps: .venv/.installed-test
	$(BIN)/python -m paper.speed.maps

# The paper's own model, its grid searched, beside the printed numbers: docs/paper.md. Hours; it goes on where it was stopped.
reproduce: .venv/.installed-test
	$(BIN)/python -m paper.reproduce scene yeast sider bibtex --points 27 --budget 12h --render

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/bin/uv: | .venv/bin/python
	$(BIN)/python -m pip install --quiet uv || echo "uv is not to be had here: plain pip is used"

define install
	@echo "installing hotvae$(1) into .venv ..."
	@if [ -x $(BIN)/uv ]; then $(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e ".$(1)"; \
	else $(BIN)/python -m pip install --quiet -c constraints.txt -e ".$(1)"; fi
	@touch $@
endef

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/uv
	$(call install,)

.venv/.installed-test: pyproject.toml constraints.txt | .venv/bin/uv
	$(call install,[test])

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/uv
	$(call install,[dev])

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis hotvae-demo

# New attacks for half an hour; those that go wrong are printed (docs/reliability.md).
soak: .venv/.installed-test
	$(BIN)/python -m paper.reliability --minutes 30
