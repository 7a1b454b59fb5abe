# Thin over scripts/: each target says what it needs, the scripts do the work.

.PHONY: demo test build lint format bench clean

demo:  ## Set up, build, install into .venv and profile a real model
	@bash scripts/demo.sh

test:  ## Set up, build, and run every test
	@bash scripts/test.sh

build:  ## Set up, build and install into .venv
	@bash scripts/build.sh

lint:  ## clang-format, clang-tidy on changed sources, ruff, mypy
	@bash scripts/lint.sh

format:  ## Format C++ and Python sources in place
	@bash scripts/format.sh

bench:  ## Build and run the benchmarks
	@bash scripts/bench.sh

clean:  ## Remove the build folder; .venv stays
	@rm -rf build
