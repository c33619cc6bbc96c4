#!/bin/sh
# Installs bun for the build of an image, as bin/bun: npm compares the SHA-512 of the binary's package with package-lock.json. Runs no
# install script: that of the package `bun`, which `npx` runs, downloads a missing binary without a check.
set -eu
cd "$(dirname "$0")"
npm ci --ignore-scripts --no-audit --no-fund --silent
# npm leaves out an optional package for another platform, and one whose digest differs.
set -- node_modules/@oven/bun-linux-*/bin/bun
if [ ! -x "$1" ]; then
  echo "install.sh: there is no bun for $(uname -s) $(uname -m), or its package is not the one of package-lock.json" >&2
  exit 1
fi
mkdir -p bin
ln -sf "../$1" bin/bun
