#!/bin/sh
# Installs the collector from its tar, or replaces an installed one; `install.sh --remove` removes it and keeps its queue and identity. For
# hosts without dpkg and rpm. With DESTDIR the files are placed below it, and nothing else is done.
set -eu
cd "$(dirname "$0")"
to=${DESTDIR:-}
hook=/usr/lib/svc-collector/configure-host

if [ "${1-}" = --remove ]; then
  [ -n "$to" ] || $hook removing
  find usr -type f | while read -r file; do rm -f "$to/$file"; done
  [ -n "$to" ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
  exit 0
fi

if [ -e "$to/usr/bin/svc-collector" ]; then change=upgraded; else change=installed; fi
# `install` makes a new file, so that a running collector keeps its own.
find usr -type f | while read -r file; do
  if [ -x "$file" ]; then mode=0755; else mode=0644; fi
  install -D -m "$mode" "$file" "$to/$file"
done
[ -n "$to" ] || $hook "$change"
