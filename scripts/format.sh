#!/usr/bin/env bash
# make format: C++ and Python sources, in place.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source scripts/sources.sh

bash scripts/setup.sh requirements-test.txt
cpp_files | xargs "$venv/bin/clang-format" -i
"$venv/bin/ruff" check -q --fix .
"$venv/bin/ruff" format -q .
