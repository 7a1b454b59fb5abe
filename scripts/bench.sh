#!/usr/bin/env bash
# make bench: what headscope costs on this machine. Arguments go to Google Benchmark.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

HEADSCOPE_NEED_BENCHMARK=1 bash scripts/setup.sh
bench_dir=$root/build/bench
stage "configure the benchmarks" env PATH="$venv/bin:$PATH" "$venv/bin/cmake" -S . -B "$bench_dir" -G Ninja \
  -DCMAKE_BUILD_TYPE=Release -DHEADSCOPE_BUILD_TESTS=OFF -DHEADSCOPE_BUILD_BENCHMARKS=ON \
  "-DPython_EXECUTABLE=$venv/bin/python"
stage "build the benchmarks" nice env PATH="$venv/bin:$PATH" "$venv/bin/cmake" --build "$bench_dir" -j "$jobs"
exec "$bench_dir/benchmarks/headscope_benchmarks" "$@"
