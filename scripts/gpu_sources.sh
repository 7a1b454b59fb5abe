#!/usr/bin/env bash
# Puts the sources that scripts/gpu_check.sh builds into build/gpu-sources: for a machine without network and without
# these libraries. They are Debian's source packages, about 5 MB.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

target=$root/build/gpu-sources
work=$root/build/gpu-source-lists
mirror=${HEADSCOPE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
mkdir -p "$target" "$work/lists/partial"
printf 'deb-src %s bookworm main\n' "$mirror" >"$work/sources.list"
apt=(apt-get -q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$work/lists"
  -o APT::Sandbox::User=root)

fetch() {
  "${apt[@]}" update && cd "$target" && "${apt[@]}" source --download-only fmtlib simdjson googletest zlib
}
stage "fetch sources" fetch
du -sh "$target"
