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
use_venv

install_headscope() {
  HEADSCOPE_BUILD_TESTS=$tests nice python -m pip install -v --no-build-isolation --no-deps --no-index \
    --force-reinstall .
}

# One install at a time lies in .venv, so one stamp: what was installed, and the tests that were built with it.
torch=$(python -c 'import torch; print(torch.__version__, torch.__file__)')
stamp=$venv/.headscope.stamp
installed=$(content_key CMakeLists.txt cmake src include python pyproject.toml README.md -- \
  "$torch" "${CXX:-c++}" "${CXXFLAGS:-}")
if [[ $tests == ON ]]; then
  key="$installed $(content_key tests --)"
  once "$stamp" "$key" stage "build headscope and its tests, install" install_headscope
elif [[ $(cut -d' ' -f1 "$stamp" 2>/dev/null) != "$installed" ]]; then
  once "$stamp" "$installed" stage "build and install headscope" install_headscope
fi
