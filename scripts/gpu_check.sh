#!/usr/bin/env bash
# Everything that needs a GPU, on a machine that has one: builds headscope from build/gpu-sources (which
# scripts/gpu_sources.sh makes elsewhere), runs the tests labelled gpu and those of the device clock, and measures.
#
#   HEADSCOPE_REQUIRE_GPU=1 scripts/gpu_check.sh [folder for the report, default build/gpu/report]
#
# Needs torch, cmake, ninja, pybind11 and a compiler; no network. Takes under 6 minutes on 16 cores.
#
# HEADSCOPE_REQUIRE_GPU  1: a GPU that cannot be used is a failure, else the tests skip
# PYTHON                 the Python that has torch (default python3)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
python=$(command -v "${PYTHON:-python3}")
work=$root/build/gpu
prefix=$work/prefix
report=${1:-${OUT:-$work/report}}
sources=$root/build/gpu-sources
jobs=${HEADSCOPE_JOBS:-$(nproc)}
status=0
mkdir -p "$work/src" "$prefix" "$report"
export CMAKE_BUILD_PARALLEL_LEVEL=$jobs

fail() {
  printf 'gpu_check: %s\n' "$*" >&2
  exit 1
}

# step <title> <command...>: a line with seconds; the output goes to a log that a failure shows.
step() {
  local title=$1 start=$SECONDS
  shift
  if "$@" >"$work/step.log" 2>&1 </dev/null; then
    printf '%-44s %4d s\n' "$title" $((SECONDS - start))
  else
    printf '%-44s FAILED after %d s\n' "$title" $((SECONDS - start))
    tail -n 60 "$work/step.log"
    return 1
  fi
}

with_cmake() {
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_INSTALL_PREFIX=$prefix" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@" &&
    cmake --build build && cmake --install build
}
with_make() {  # Debian's source of zlib lacks what its CMakeLists.txt names
  CFLAGS="-O2 -fPIC" ./configure --static "--prefix=$prefix" && make -j "$jobs" libz.a && make install
}

# dependency <name> <how> <options...>: from its source package into the prefix.
dependency() {
  local name=$1 archive
  shift
  [[ -e $work/$name.done ]] && return
  archive=$(find "$sources" -name "${name}_*.orig.tar.*" | head -n 1)
  [[ -n $archive ]] || fail "no source of $name in $sources: run scripts/gpu_sources.sh where there is a network"
  mkdir -p "$work/src/$name"
  tar -xf "$archive" -C "$work/src/$name" --strip-components=1
  cd "$work/src/$name" || exit 1
  step "build $name" "$@" || exit 1
  cd "$root" || exit 1
  touch "$work/$name.done"
}

dependency fmtlib with_cmake -DFMT_TEST=OFF -DFMT_DOC=OFF
dependency simdjson with_cmake -DSIMDJSON_DEVELOPER_MODE=OFF -DBUILD_SHARED_LIBS=OFF
dependency googletest with_cmake -DBUILD_GMOCK=ON
dependency zlib with_make

step "configure headscope" cmake -S . -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$prefix" \
  "-DPython_EXECUTABLE=$python" -DHEADSCOPE_BUILD_TESTS=ON -DHEADSCOPE_BUILD_PYTHON=ON || exit 1
step "build headscope and what the check needs" nice cmake --build "$work/build" --target headscope headscope_python \
  headscope_cupti_tests headscope_device_clock_tests headscope_device_beside_torch_profiler_tests \
  headscope_device_graphs_tests headscope_fake_cupti headscope_fake_cuda || exit 1

# The package as it would be installed.
package=$work/package
mkdir -p "$package/headscope"
cp -r python/headscope/. "$package/headscope/"
cp "$work/build/python/"{_core*.so,_build_info.py} "$package/headscope/"
export PYTHONPATH=$package
"$python" -m headscope doctor | tee "$report/doctor.txt"

tests() {
  ctest --test-dir "$work/build" --no-tests=error --output-on-failure -j "$jobs" --timeout 240 "$@" </dev/null |
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#.*Passed|Test project|$)'
}
echo "--- the device clock, on fakes"
tests -R '^(cupti|torch)\.DeviceClock\.' || status=1
echo "--- tests that need a GPU"
tests -L gpu -V | tee "$report/gpu_tests.txt" || status=1

echo "--- measurements"
timeout 150 "$python" scripts/gpu_report.py --json "$report/gpu.json" --text "$report/gpu.txt" || status=1
cat "$report/gpu.txt" 2>/dev/null
echo "gpu_check: $([[ $status == 0 ]] && echo passed || echo FAILED), $SECONDS s; the report is in $report"
exit $status
