# Every target sets up what it needs in .venv first; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test check clean

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

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[prepare,train,dev]'
	touch $@

clean:
	rm -rf .venv build
