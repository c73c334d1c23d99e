# Every target sets up what it needs in .venv first; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test check docs gallery dist wheel-test try-pythons lock licenses clean

demo: $(STAMP)  ## caption three photographs under several controls and draw them; ground the tiny corpus
	$(BIN)/python examples/demo.py --out build/demo
	$(BIN)/sct prepare examples/tiny build/demo/tiny --overwrite
	$(BIN)/sct show build/demo/tiny astronaut --draw build/demo/astronaut.png

test: $(STAMP)  ## all tests
	$(BIN)/pytest -n auto

check: $(STAMP)  ## lint, types, and every example in a docstring
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest --doctest-modules src -p no:cacheprovider

dist wheel-test: export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
dist: $(STAMP)  ## dist/: sdist and wheel
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

wheel-test: $(STAMP)  ## build both twice, compare the bytes, and try the wheel in a clean environment
	$(BIN)/python benchmarks/release/try_wheel.py --out dist

PYTHONS ?= python3.11 python3.12 python3.13
try-pythons: dist  ## try the wheel with every supported Python that is installed; torch is the index's
	for python in $(PYTHONS); do \
	  if ! $$python --version 2>/dev/null; then echo "$$python is not installed"; continue; fi; \
	  $(BIN)/python benchmarks/release/try_wheel.py --out dist --skip-build --python $$python || exit 1; \
	done

# Material announces its successor on every build; nothing is loaded from other hosts.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(STAMP)  ## the documentation site in build/site; a warning or a bad link fails
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python docs/site/check_links.py build/site

gallery: $(STAMP)  ## docs/gallery.md: captions of photographs under control, and the figures of docs/concepts.md
	$(BIN)/python benchmarks/release/gallery.py
	$(BIN)/python benchmarks/release/concept_figures.py

# torch==...+cpu comes from PyTorch's CPU index or a folder with its wheels: UV_EXTRA_INDEX_URL or UV_FIND_LINKS names it.
UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
COMPILE := uv pip compile pyproject.toml --constraint constraints.txt --generate-hashes --python-version 3.11.5 \
	--python-platform x86_64-manylinux_2_28 --no-annotate --custom-compile-command 'make lock' --quiet
lock: export UV_FIND_LINKS := $(UV_FIND_LINKS)
lock:  ## the versions of constraints.txt with the hashes of their files, for Linux without CUDA
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet uv
	build/uv/bin/$(COMPILE) --output-file requirements-cpu.lock
	build/uv/bin/$(COMPILE) $(addprefix --extra ,prepare train serve hub ray onnx supervision docs dev) --output-file requirements-cpu-dev.lock

licenses: $(STAMP)  ## docs/licenses.md: the licence of every run-time dependency
	$(BIN)/python benchmarks/release/licenses.py docs/licenses.md

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[prepare,train,docs,dev]'
	touch $@

clean:
	rm -rf .venv build
