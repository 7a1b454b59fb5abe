#!/usr/bin/env bash
# Sets up, then builds the wheel and installs it into .venv. --tests builds the tests too.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tests=OFF
requirements=()
while (($# > 0)); do
  case $1 in
    --tests) tests=ON ;;
    *) requirements+=("$1") ;;
  esac
  shift
done
bash scripts/setup.sh "${requirements[@]}"

install_headscope() {
  PATH="$venv/bin:$PATH" VIRTUAL_ENV="$venv" HEADSCOPE_BUILD_TESTS=$tests nice "$venv/bin/python" -m pip install -v \
    --no-build-isolation --no-deps --no-index --force-reinstall .
}

torch=$("$venv/bin/python" -c 'import torch; print(torch.__version__, torch.__file__)')
inputs=(CMakeLists.txt cmake src include python pyproject.toml README.md)
if [[ $tests == ON ]]; then
  inputs+=(tests examples/cpp)
fi
key=$(content_key "${inputs[@]}" -- "$torch" "$tests" "${CXX:-c++}" "${CXXFLAGS:-}")
title="build and install headscope"
if [[ $tests == ON ]]; then
  title="build headscope and its tests, install"
fi
once "$venv/.headscope-tests-$tests.stamp" "$key" stage "$title" install_headscope
