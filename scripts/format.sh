#!/usr/bin/env bash
# make format: C++ and Python sources, in place.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source scripts/sources.sh

bash scripts/setup.sh requirements-test.txt
use_venv
cpp_files | xargs clang-format -i
ruff check -q --fix .
ruff format -q .
