# Sourced by the other scripts: progress lines, stamps, the environment.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
venv=$root/.venv
build_dir=$root/build/wheel # pyproject.toml builds there
log_dir=$root/build/logs
mkdir -p "$log_dir"

# Cores to build with; HEADSCOPE_JOBS overrides.
jobs=${HEADSCOPE_JOBS:-$(nproc)}
export CMAKE_BUILD_PARALLEL_LEVEL=$jobs
export PIP_DISABLE_PIP_VERSION_CHECK=1

fail() {
  printf '\nheadscope: %s\n' "$*" >&2
  exit 1
}

# stage <title> <command...>: one line with seconds; the output is shown only when the command fails.
stage() {
  local title=$1 log start status=0
  shift
  log=$log_dir/$(printf '%s' "$title" | tr -c 'a-zA-Z0-9\n' '-').log
  start=$SECONDS
  printf '%-60s' "$title ..."
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status == 0)); then
    printf ' %4d s\n' $((SECONDS - start))
  else
    printf ' FAILED after %d s\n\n' $((SECONDS - start))
    tail -n 200 "$log"
    fail "\"$title\" failed (exit status $status); the whole output is in ${log#"$root"/}"
  fi
}

# Puts the tools of .venv on PATH, and those of the Python that lends its packages to it (see setup.sh).
use_venv() {
  local lender
  lender=$(cat "$venv/.lender" 2>/dev/null || true)
  export VIRTUAL_ENV=$venv PATH=$venv/bin:${lender:+$(dirname "$lender"):}$PATH
}

# Content of files and of the words given after --, as one key.
content_key() {
  local files=()
  while (($# > 0)) && [[ $1 != -- ]]; do
    files+=("$1")
    shift
  done
  {
    printf '%s\n' "$@"
    find "${files[@]}" -type f -not -path '*/__pycache__/*' -not -path '*/.*_cache/*' -print0 | sort -z | xargs -0 sha256sum
  } | sha256sum | cut -d' ' -f1
}

# once <stamp> <key> <command...>: does nothing when the stamp holds the key.
once() {
  local stamp=$1 key=$2
  shift 2
  if [[ -f $stamp && $(<"$stamp") == "$key" ]]; then
    return 0
  fi
  "$@"
  printf '%s\n' "$key" >"$stamp"
}
