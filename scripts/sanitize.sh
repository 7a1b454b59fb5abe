#!/usr/bin/env bash
# All that needs no torch under the address, undefined-behaviour and thread sanitizers; the device clock against the
# iterators of real libcupti's; a minute of fuzzing.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

HEADSCOPE_NEED_FUZZER=1 bash scripts/setup.sh
use_venv
bash scripts/cupti_wheels.sh
export HEADSCOPE_REAL_CUPTI_DIR=$root/build/cupti
results=$root/build/test-results
mkdir -p "$results"
status=0

for preset in asan tsan; do
  stage "configure $preset" cmake --preset "$preset" -DHEADSCOPE_WITH_TORCH=OFF
  stage "build $preset" nice cmake --build --preset "$preset" -j "$jobs"
  echo "--- ctest, $preset"
  ctest --preset "$preset" --no-tests=error -j "$jobs" --output-junit "$results/ctest-$preset.xml" </dev/null |
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#.*Passed|Test project|$)' || status=1
done

stage "fuzz the trace reader" bash scripts/fuzz.sh 60
exit $status
