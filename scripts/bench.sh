#!/usr/bin/env bash
# make bench: what headscope costs on this machine. Arguments go to benchmarks/overhead.py.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

HEADSCOPE_NEED_BENCHMARK=1 bash scripts/build.sh requirements-demo.txt
use_venv
bench_dir=$root/build/bench
stage "configure the benchmarks" cmake -S . -B "$bench_dir" -G Ninja \
  -DCMAKE_BUILD_TYPE=Release -DHEADSCOPE_BUILD_TESTS=OFF -DHEADSCOPE_BUILD_BENCHMARKS=ON \
  "-DPython_EXECUTABLE=$venv/bin/python"
stage "build the benchmarks" nice cmake --build "$bench_dir" -j "$jobs" \
  --target headscope_stage_benchmarks --target headscope_trace_speed
"$bench_dir/benchmarks/headscope_stage_benchmarks"
python benchmarks/trace.py
# torch.profiler of some versions writes a line to stderr at each start and stop.
python benchmarks/overhead.py "$@" 2> >(grep -v '^USDT:' >&2)
