#!/usr/bin/env bash
# Feeds the trace reader with mutated traces under the sanitizers: scripts/fuzz.sh [seconds, default 60].
#
# HEADSCOPE_FUZZ_CXX  a clang++ with libFuzzer (Debian: clang-14 and libclang-rt-14-dev)
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds=${1:-60}
compiler=${HEADSCOPE_FUZZ_CXX:-}
for candidate in clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14; do
  if [[ -z $compiler ]] && command -v "$candidate" >/dev/null; then
    compiler=$candidate
  fi
done
[[ -n $compiler ]] || fail "clang++ is missing. Install clang-14 and libclang-rt-14-dev, or name one in HEADSCOPE_FUZZ_CXX."

fuzz_dir=$root/build/fuzz
stage "configure the fuzzer" cmake -S . -B "$fuzz_dir" -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHEADSCOPE_WITH_TORCH=OFF -DHEADSCOPE_BUILD_TESTS=OFF -DHEADSCOPE_BUILD_FUZZER=ON
stage "build the fuzzer" nice cmake --build "$fuzz_dir" -j "$jobs" --target headscope_trace_fuzz

# What it finds goes to the build folder; the corpus of the repository is only read.
mkdir -p "$fuzz_dir/corpus"
cd "$fuzz_dir"
exec ./tests/fuzz/headscope_trace_fuzz -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=8192 \
  -dict="$root/tests/fuzz/trace.dict" -print_final_stats=1 corpus "$root/tests/data/fuzz_trace"
