#!/usr/bin/env bash
# make demo: from a fresh machine to a profile of a real model.
# shellcheck source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

bash scripts/build.sh requirements-demo.txt
exec "$venv/bin/headscope" demo
