#!/bin/sh
# Brings node_modules to what bun.lock says, and checks that the project's own Node runs. Quiet, and quick when nothing changed.
set -eu
cd "$(dirname "$0")/.."

if ! bun install --frozen-lockfile --silent; then
  echo "setup: dependencies could not be installed: see above; bun.lock and package.json must agree" >&2
  exit 1
fi
node="node_modules/.bin/node"
if [ ! -x "$node" ]; then
  echo "setup: there is no Node for $(uname -s) $(uname -m): Linux and macOS on x64 and arm64 are supported" >&2
  exit 1
fi
if ! problem=$("$node" --version 2>&1 >/dev/null); then
  echo "setup: the project's Node does not start: $problem" >&2
  case "$problem" in
    *libatomic*) echo "setup: install libatomic (Debian, Ubuntu: apt-get install libatomic1; Fedora: dnf install libatomic)" >&2 ;;
    *GLIBC* | *"not found"*) echo "setup: it needs glibc 2.28 or later; musl systems such as Alpine are not supported" >&2 ;;
  esac
  exit 1
fi
