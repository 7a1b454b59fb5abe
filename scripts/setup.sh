#!/usr/bin/env bash
# Brings what a build needs: system packages, .venv, torch, Python packages. Runs again at no cost.
# Arguments: requirements files beyond requirements-build.txt.
#
# HEADSCOPE_PYTHON    a Python whose torch (>= 2.6) shall be used; an active virtual environment counts as well
# HEADSCOPE_PIP_ARGS  more arguments for pip, such as --index-url for a CPU-only torch
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

read -r -a pip_args <<<"${HEADSCOPE_PIP_ARGS:-}"

has_torch() {
  "$1" -c 'import re, torch; raise SystemExit(tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < (2, 6))' \
    >/dev/null 2>&1
}

# --- system packages -------------------------------------------------------------------------------------------------

compiles() { printf '#include <%s>\n' "$1" | "${CXX:-c++}" -E -x c++ - >/dev/null 2>&1; }

missing_packages() {
  command -v "${CXX:-c++}" >/dev/null || echo g++
  command -v git >/dev/null || echo git
  command -v python3 >/dev/null || echo python3
  compiles fmt/format.h || echo libfmt-dev
  compiles simdjson.h || echo libsimdjson-dev
  compiles zlib.h || echo zlib1g-dev
  compiles gtest/gtest.h || echo libgtest-dev
  compiles gmock/gmock.h || echo libgmock-dev
  if [[ ${HEADSCOPE_NEED_BENCHMARK:-} == 1 ]]; then
    compiles benchmark/benchmark.h || echo libbenchmark-dev
  fi
  if [[ ${HEADSCOPE_NEED_FUZZER:-} == 1 ]] && ! compgen -c clang++ >/dev/null; then
    echo clang-14 libclang-rt-14-dev
  fi
  local python=${HEADSCOPE_PYTHON:-python3}
  if ! command -v "$python" >/dev/null; then
    echo python3-venv python3-dev
    return
  fi
  # Headers and ensurepip belong to packages of their own for the system's Python only.
  local package
  package=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
  "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "$package-venv"
  "$python" -c 'import os, sysconfig as s; raise SystemExit(not os.path.exists(s.get_path("include") + "/Python.h"))' ||
    echo "$package-dev"
}

install_packages() {
  local sudo=() packages=("$@")
  command -v apt-get >/dev/null || {
    echo "apt-get is not here. Install with this system's package manager what Debian calls: ${packages[*]}"
    return 1
  }
  if ((EUID != 0)); then
    command -v sudo >/dev/null || {
      echo "Neither root nor sudo. Ask an administrator to run: apt-get install ${packages[*]}"
      return 1
    }
    sudo=(sudo)
  fi
  local install=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends)
  "${install[@]}" "${packages[@]}" && return
  "${sudo[@]}" apt-get update || echo "apt-get update failed; trying with the lists that are here"
  local package failed=()
  for package in "${packages[@]}"; do
    "${install[@]}" "$package" || failed+=("$package")
  done
  if ((${#failed[@]} > 0)); then
    echo "Could not install: ${failed[*]}. Install them by hand (apt-get install ${failed[*]}), then run this again."
    return 1
  fi
}

mapfile -t -d ' ' packages < <(missing_packages | tr -s '\n ' ' ')
if ((${#packages[@]} > 0)); then
  if ((EUID != 0)) && command -v sudo >/dev/null; then
    sudo -v || fail "sudo refused. Ask an administrator to run: apt-get install ${packages[*]}"
  fi
  stage "system packages: ${packages[*]}" install_packages "${packages[@]}"
fi
[[ $(printf '#include <version>\n__cplusplus\n' | "${CXX:-c++}" -std=c++20 -E -x c++ - 2>/dev/null | tail -1) == 20* ]] ||
  fail "${CXX:-c++} is no C++20 compiler. Install g++ 11 or later, or name one in CXX."

# --- Python ----------------------------------------------------------------------------------------------------------

# The Python that lends its torch, if any.
lender=
for candidate in "${HEADSCOPE_PYTHON:-}" "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}"; do
  # .venv itself lends nothing, whatever path leads to it.
  if [[ -n $candidate ]] && path=$(command -v "$candidate") && [[ ! ${path%/*} -ef $venv/bin ]] &&
    has_torch "$candidate"; then
    lender=$path
    break
  fi
done
if [[ -n ${HEADSCOPE_PYTHON:-} && -z $lender ]]; then
  fail "HEADSCOPE_PYTHON=$HEADSCOPE_PYTHON has no torch >= 2.6. Install one there, or unset HEADSCOPE_PYTHON."
fi

make_venv() {
  local base=${lender:-python3}
  rm -rf "$venv"
  "$base" -m venv "$venv" || return
  if [[ -n $lender ]]; then
    # Packages of the lender are seen and never changed: what is installed here goes first.
    "$lender" -c 'import sysconfig as s; print(*dict.fromkeys([s.get_path("purelib"), s.get_path("platlib")]), sep="\n")' \
      >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/lender.pth" || return
  fi
  printf '%s\n' "$lender" >"$venv/.lender"
}

if [[ ! -x $venv/bin/python || (-n $lender && $(cat "$venv/.lender" 2>/dev/null) != "$lender") ]]; then
  "${lender:-python3}" -c 'import sys; raise SystemExit(sys.version_info < (3, 10))' ||
    fail "$("${lender:-python3}" --version) is too old: headscope needs Python 3.10 or later. Name one in HEADSCOPE_PYTHON."
  stage "virtual environment .venv${lender:+ with the torch of $lender}" make_venv
fi

if ! has_torch "$venv/bin/python"; then
  stage "torch 2.13.0" "$venv/bin/python" -m pip install "${pip_args[@]}" torch==2.13.0
fi

install_requirements() {
  # Whatever else is installed, this torch stays.
  "$venv/bin/python" -c 'import torch; print("torch==" + torch.__version__)' >"$venv/torch-constraint.txt"
  "$venv/bin/python" -m pip install "${pip_args[@]}" -c "$venv/torch-constraint.txt" "$@"
}
for file in requirements-build.txt "$@"; do
  once "$venv/.$file.stamp" "$(content_key "$file" -- "$lender")" \
    stage "Python packages of $file" install_requirements -r "$file"
done
