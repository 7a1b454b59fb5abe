#!/usr/bin/env bash
# make lint: formatting of all files, clang-tidy on changed sources, ruff and mypy. Needs the build of `make test`.
#
# HEADSCOPE_TIDY_BASE     commit to compare with (default: where this branch left main; on main, the commit before)
# HEADSCOPE_TIDY_SECONDS  time for clang-tidy (default 600); files that it does not reach are named
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
source scripts/sources.sh

bash scripts/build.sh --tests requirements-demo.txt requirements-test.txt
use_venv
failed=()

lint() {
  local title=$1 start=$SECONDS
  shift
  if "$@" </dev/null; then
    printf '%-60s %4d s\n' "$title" $((SECONDS - start))
  else
    failed+=("$title")
    printf '%-60s FAILED after %d s\n' "$title" $((SECONDS - start))
  fi
}

base_commit() {
  local base
  for base in "${HEADSCOPE_TIDY_BASE:-}" "$(git merge-base HEAD origin/main 2>/dev/null)" \
    "$(git merge-base HEAD main 2>/dev/null)"; do
    if [[ -n $base && $(git rev-parse "$base") != $(git rev-parse HEAD) ]]; then
      echo "$base"
      return
    fi
  done
  git rev-parse -q --verify HEAD~1 2>/dev/null || git hash-object -t tree /dev/null
}

changed_sources() {
  { git diff --name-only --diff-filter=d "$(base_commit)" -- 'src/*.cpp' 'python/src/*.cpp' 'tests/*.cpp' &&
    git ls-files -o --exclude-standard -- 'src/*.cpp' 'python/src/*.cpp' 'tests/*.cpp'; } 2>/dev/null |
    sort -u | while read -r file; do
    # Only what this build compiles has its flags on record.
    if grep -qF "$root/$file\"" "$build_dir/compile_commands.json"; then echo "$file"; fi
  done
}

tidy() {
  local deadline=$((SECONDS + ${HEADSCOPE_TIDY_SECONDS:-600})) status=0 files left
  mapfile -t files < <(changed_sources)
  echo "clang-tidy: ${#files[@]} changed sources"
  ((${#files[@]} > 0)) || return 0
  left=$((deadline - SECONDS))
  printf '%s\0' "${files[@]}" | timeout "$left" nice xargs -0 -n 1 -P "$jobs" bash -c \
    'clang-tidy -p "$1" --quiet "$2" 2> >(grep -v "warnings\?.*generated\|^Suppressed\|^Use -" >&2) && echo "$2" >>"$1/tidy-ok" ||
     { echo "clang-tidy found problems in $2"; exit 1; }' tidy "$build_dir" || status=$?
  if ((status == 124)); then
    echo "clang-tidy: time is up; these files were not checked:"
    comm -23 <(printf '%s\n' "${files[@]}" | sort) <(sort "$build_dir/tidy-ok" 2>/dev/null)
    status=0
  fi
  rm -f "$build_dir/tidy-ok"
  return "$status"
}

format_check() { cpp_files | xargs clang-format --dry-run -Werror; }

lint "clang-format" format_check
lint "clang-tidy" tidy
lint "mutants fit the sources" python scripts/mutants.py --check
lint "ruff check" ruff check -q .
lint "ruff format" ruff format -q --check .
lint "mypy" python -m mypy --no-error-summary
if ((${#failed[@]} > 0)); then
  fail "lint failed: ${failed[*]}. \`make format\` repairs formatting."
fi
