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
# Every file is complete before the first replaces another: a full disk leaves what is installed. The program is the last, and goes again if
# the hook fails the first time, so that the next run installs.
trap 'find usr -type f | while read -r file; do rm -f "$to/$file.new"; done' EXIT
find usr -type f | while read -r file; do
  if [ -x "$file" ]; then mode=0755; else mode=0644; fi
  install -D -m "$mode" "$file" "$to/$file.new"
done
find usr -type f | LC_ALL=C sort -r | while read -r file; do mv -f "$to/$file.new" "$to/$file"; done
[ -n "$to" ] || $hook "$change" || {
  [ "$change" = upgraded ] || rm -f /usr/bin/svc-collector
  exit 1
}
