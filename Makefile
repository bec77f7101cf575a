# Every target builds the environment it needs in .venv; nothing else on the machine is touched.
# Some machines switch the byte-code cache off; without it every command would compile torch anew.
export PYTHONDONTWRITEBYTECODE :=
PYTHON ?= python3
BIN := .venv/bin
# Certificates are those of the system, as with pip, which matters behind a proxy.
# uv does not read pip's settings: hand it the folder pip has been told to look for wheels in. Where there is none, torch
# comes from its own index for processors, a tenth of the size; `make demo TORCH=auto` takes the build for this machine's
# graphics card, TORCH=cu128 that for CUDA 12.8 (docs/install.md).
TORCH ?= cpu
UV := WHEELS="$${UV_FIND_LINKS:-$$($(BIN)/python -m pip config get global.find-links 2>/dev/null)}"; \
	if [ -n "$$WHEELS" ]; then export UV_FIND_LINKS="$$WHEELS"; else export UV_TORCH_BACKEND=$(TORCH); fi; \
	UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(BIN)/uv

.PHONY: demo docs wheel test-lowest test quick check lint types layers examples soak bench-maps reproduce clean

demo: .venv/.installed
	$(BIN)/hotvae demo

# Every notebook is run, then the site is built into site/ without a network; any warning or dead link is an error.
docs: .venv/.installed-docs
	$(BIN)/python docs/notebooks.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean
	$(BIN)/python docs/check_links.py site

# The wheel and the source archive, each installed into an empty environment and tried there.
wheel: .venv/.installed-test
	HOTVAE_TEST_WHEEL=1 $(BIN)/python -m pytest tests/test_wheel.py -q

# The oldest version of every dependency that pyproject.toml allows, on each Python that is to be had; one alone:
# make test-lowest LOWEST="--pythons 3.12".
test-lowest: | .venv/bin/uv
	$(BIN)/python tests/lowest.py $(LOWEST)

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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || echo "uv is not to be had here: plain pip is used"

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

.venv/.installed-docs: pyproject.toml constraints.txt | .venv/bin/uv
	$(call install,[docs])

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/uv
	$(call install,[dev])

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis hotvae-demo site dist

# New attacks for half an hour; those that go wrong are printed (docs/reliability.md).
soak: .venv/.installed-test
	$(BIN)/python -m paper.reliability --minutes 30
