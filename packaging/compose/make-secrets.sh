#!/bin/sh
# Makes the secrets of compose.yaml in $1 (default ./secrets) that can be made here: random passwords and keys, and the database URLs
# that contain them. POSTGRES_PASSWORD, if set, becomes the database's password. Never replaces a file. Gives every file there its
# owner and mode, also one that somebody added. Lists what is left to add.
set -eu
dir=${1:-secrets}
umask 077
mkdir -p "$dir"

random() {
  od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}
keep() {
  [ -e "$dir/$1" ] || printf '%s' "$2" >"$dir/$1"
}

case "${POSTGRES_PASSWORD:-}" in
  *[!A-Za-z0-9._~-]*)
    echo "make-secrets: POSTGRES_PASSWORD may hold letters, digits and . _ ~ - only, because it becomes part of a URL" >&2
    exit 1
    ;;
esac
keep database-password "${POSTGRES_PASSWORD:-$(random)}"
keep database-url "postgres://svc:$(cat "$dir/database-password")@database:5432/svc"
keep web-database-password "$(random)"
keep web-database-url "postgres://svc_web:$(cat "$dir/web-database-password")@database:5432/svc"
keep auth-token-secret "$(random)"
keep session-secret "$(random)"
# The programs run as user 1000 and reject keys that others can read.
chmod 0600 "$dir"/*
[ "$(id -u)" != 0 ] || chown -R 1000:1000 "$dir"

missing=""
for file in idp-client-secret service-account.json ingest.crt ingest.key enrollment-ca.crt enrollment-ca.key; do
  [ -s "$dir/$file" ] || missing="$missing $dir/$file"
done
[ -z "$missing" ] || echo "make-secrets: add these files, then run this again (docs/compose.md):$missing"
