#!/usr/bin/env bash
# make test: ctest (C++, layering, consumers of the package), then pytest with the installed package.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

bash scripts/build.sh --tests requirements-demo.txt requirements-test.txt
use_venv

results=$root/build/test-results
rm -rf "$results"
mkdir -p "$results"
status=0

echo
echo "--- ctest"
ctest --test-dir "$build_dir" --no-tests=error --output-on-failure -j "$jobs" --output-junit "$results/ctest.xml" \
  </dev/null | grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#.*Passed|Test project|$)' || status=1

echo
echo "--- pytest"
export HEADSCOPE_FAKE_CUPTI_DIR=$build_dir/tests/support/fake_cupti
python -m pytest -q -p no:cacheprovider --junitxml "$results/pytest.xml" </dev/null || status=1

echo
python scripts/test_totals.py "$results/ctest.xml" "$results/pytest.xml" || status=1
exit $status
