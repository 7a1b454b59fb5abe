#!/usr/bin/env bash
# Unpacks libcupti of several releases into build/cupti, for tests/cupti/real_iterator_test.cpp: their iterators walk
# records without a device or a driver. Later releases (13.2 and up) fail or crash where no driver is.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

read -r -a pip_args <<<"${HEADSCOPE_PIP_ARGS:-}"
wheels=(nvidia-cuda-cupti-cu12==12.4.127 nvidia-cuda-cupti-cu12==12.6.80 nvidia-cuda-cupti-cu12==12.8.90
  nvidia-cuda-cupti-cu12==12.9.79 nvidia-cuda-cupti==13.0.85 nvidia-cuda-cupti==13.1.115)

fetch() {
  local wheel target
  for wheel in "${wheels[@]}"; do
    target=$root/build/cupti/${wheel##*==}
    [[ -d $target ]] && continue
    "$venv/bin/python" -m pip install "${pip_args[@]}" --no-deps --target "$target.part" "$wheel" || return
    mv "$target.part" "$target"
  done
}
stage "libcupti of ${#wheels[@]} releases" fetch
