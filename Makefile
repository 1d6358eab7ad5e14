PYTHON ?= python3
BIN := .venv/bin
# Tests start many processes, and pytest rewrites every test: compiled once, both start in a third of the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick affected test coverage fuzz slow check fix hooks constraints clean bench-train bench-translate bench-runtime \
  bench-million compare-speed gpu library page page-real site

demo: .venv/ready  ## install, then train, score, translate and draw on the built-in sample
	$(BIN)/regard demo

UNITS := not slow and not system

quick: .venv/ready  ## units, of each test the first case
	$(BIN)/pytest -q -n 2 --ignore tests/repository -m "$(UNITS)"

affected: .venv/ready  ## the tests that what is not committed can affect, its own first; OPTIONS='--base main' for a branch
	$(BIN)/python tests/affected.py -n 2 $(OPTIONS)

test: .venv/ready  ## all but the slow tests and those of `make check`
	$(BIN)/pytest -n 2 --ignore tests/repository

coverage: .venv/ready  ## branch coverage of all but the slow tests, by module
	$(BIN)/pytest -q -n 2 --cov --cov-report=term

fuzz: .venv/ready  ## 10,000 commands (an hour), 250 kills (20 minutes), 10,000 requests (an hour), attackers (10 minutes), 200 restarts of the server (10 minutes); OPTIONS: see tests/fuzz --help
	$(BIN)/python tests/fuzz $(OPTIONS)
	$(if $(OPTIONS),,$(BIN)/python tests/fuzz --kills 250)
	$(if $(OPTIONS),,$(BIN)/python tests/fuzz --http 10000)
	$(if $(OPTIONS),,$(BIN)/python tests/fuzz --attack 10)
	$(if $(OPTIONS),,$(BIN)/python tests/fuzz --restarts 200)

slow: .venv/ready  ## before a release: the slow tests, the laws over every variant, every annotation checked; two hours
	$(BIN)/pytest -n 2 -m slow -o faulthandler_timeout=7200
	REGARD_MODELS=all $(BIN)/pytest -n 2 tests/laws -m "not slow"
	REGARD_SHAPES=all $(BIN)/pytest -n 2 -m "$(UNITS)"

check: .venv/ready  ## format, lint, types, and what the repository promises of itself (tests/repository)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 tests/repository

fix: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: .venv/ready  ## runs the tools of `make check` before each commit
	$(BIN)/pre-commit install

# OPTIONS=--upgrade takes the newest versions in the ranges; without it, pins that still fit stay.
constraints: $(BIN)/uv  ## pins in constraints.txt what pyproject.toml needs, for every supported Python and system
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.10 --all-extras --no-annotate \
	  --no-python-downloads --output-file constraints.txt $(OPTIONS) >/dev/null

$(BIN)/uv:  # without .venv/ready, which old pins may prevent
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv

bench-train: .venv/ready  ## training speed beside other toolkits; DATA: the folder that holds multi30k/
	$(BIN)/python benchmarks/captions.py --tasks train
	$(BIN)/python benchmarks/lineage.py --tasks train $(if $(DATA),--data "$(DATA)")
	$(BIN)/python benchmarks/train.py $(if $(DATA),--data "$(DATA)")

bench-runtime: .venv/ready  ## the runtime beside CTranslate2; DATA, RUN_TINY, RUN_BASE as for bench-translate
	$(BIN)/python benchmarks/runtime.py $(if $(DATA),--data "$(DATA)") \
	  $(if $(RUN_TINY),--run-tiny "$(RUN_TINY)") $(if $(RUN_BASE),--run-base "$(RUN_BASE)") $(OPTIONS)

compare-speed: .venv/ready  ## this checkout beside the commit in speed-base: start, decoding, memory, training, server; five minutes; OPTIONS='--minutes 10'
	$(BIN)/python benchmarks/versions.py "$$(cat speed-base)" . $(OPTIONS)

bench-translate: .venv/ready  ## decoding speed beside other toolkits; DATA as above, RUN_TINY, RUN_BASE: trained models
	$(BIN)/python benchmarks/translate.py $(if $(DATA),--data "$(DATA)") $(if $(QUICK),--quick) \
	  $(if $(RUN_TINY),--run-tiny "$(RUN_TINY)") $(if $(RUN_BASE),--run-base "$(RUN_BASE)") $(OPTIONS)
	$(BIN)/python benchmarks/captions.py --tasks caption $(if $(QUICK),--rounds 1)
	$(BIN)/python benchmarks/lineage.py --tasks translate $(if $(DATA),--data "$(DATA)") $(if $(QUICK),--rounds 1)

bench-million: .venv/ready  ## a million lines: constant memory, killed and resumed; OPTIONS: see benchmarks/million.py --help
	$(BIN)/python benchmarks/million.py $(OPTIONS)

gpu: .venv/ready  ## everything that is promised on a GPU, in less than ten minutes; skipped with a sentence where there is none
	$(BIN)/python benchmarks/gpu.py

library: .venv/ready  ## the C library for every system, into regard/runtime/lib/, by zig's compiler; the wheel takes it along
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt ziglang
	$(BIN)/python tools/build_library.py

SAMPLE := --source runs/demo/data/train.ko --target runs/demo/data/train.en \
  --valid-source runs/demo/data/valid.ko --valid-target runs/demo/data/valid.en
SMALL := --set model.encoder.size=64 --set model.encoder.embedding=64 --set model.decoder.size=128 --set model.decoder.embedding=64 \
  --set tokenizer.kind=whitespace --set data.max_length=10 --set batching.tokens=1024 --set schedule.warmup=100 --set schedule.peak=8e-3 --set training.updates=1500

regard/runtime/lib/wasm/regard.wasm: .venv/ready $(wildcard regard/runtime/c/*)  # the library for browsers, a minute
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt ziglang
	$(BIN)/python tools/build_library.py wasm

site: .venv/ready regard/runtime/lib/wasm/regard.wasm  ## the documentation in English and Korean, into build/site/: open build/site/index.html
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[site]'
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --write-all -c site -d build/doctrees docs build/site

page: .venv/ready  ## all that is trained for the documentation: the model of the start page and the figures; half an hour
	$(BIN)/regard demo
	mkdir -p build
	$(BIN)/regard export runs/demo/ko-en --to page build/translator.html
	$(BIN)/python site/live.py build/translator.html
	$(BIN)/regard show runs/demo/ko-en "선생님이 왔을 때 나는 도서관에서 책을 읽고 있었다" --out docs/images/attention.svg
	$(BIN)/python docs/make_korean_figures.py
	$(BIN)/regard train $(SAMPLE) --preset rnn-bahdanau $(SMALL) --out runs/demo/bahdanau
	$(BIN)/regard show runs/demo/bahdanau "나는 빵을 먹고 있었다" --view player --out docs/images/player.svg

page-real: .venv/ready  ## build/real.html: a page whose model learnt real sentences, for yourself alone; DATA: the folder that holds koen/
	test -f "$(DATA)/koen/train.ko" || { echo "DATA: wanted the folder that holds koen/train.ko, got '$(DATA)'"; exit 2; }
	$(BIN)/regard train --source "$(DATA)/koen/train.ko" --target "$(DATA)/koen/train.en" \
	  --valid-source "$(DATA)/koen/val.ko" --valid-target "$(DATA)/koen/val.en" --budget 60m --out runs/real
	mkdir -p build
	$(BIN)/regard export runs/real --to page build/real.html

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Regard needs Python 3.10 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
