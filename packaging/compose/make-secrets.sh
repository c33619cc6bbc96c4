#!/bin/sh
# Makes the secrets of compose.yaml in $1 (default ./secrets) that can be made here: random passwords and keys, and the database URLs
# that contain them. POSTGRES_PASSWORD, if set here or in .env, becomes the database's password. Never replaces a file. Gives every file there its
# owner and mode, also one that somebody added. Lists what is left to add.
set -eu
dir=${1:-secrets}
umask 077
mkdir -p "$dir"

random() {
  od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}
# Docker makes a folder where a file is missing that a container mounts.
keep() {
  [ -e "$dir/$1" ] || printf '%s' "$2" >"$dir/$1"
  if [ ! -f "$dir/$1" ] || [ ! -s "$dir/$1" ]; then
    echo "make-secrets: $dir/$1 must be a file with a secret: remove what is there, then run this again" >&2
    exit 1
  fi
}

password=${POSTGRES_PASSWORD:-}
if [ -z "$password" ] && [ -f .env ]; then
  password=$(sed -n "s/^POSTGRES_PASSWORD=[\"']\{0,1\}\([^\"']*\)[\"']\{0,1\}\$/\1/p" .env | tail -n 1)
fi
case "$password" in
  *[!A-Za-z0-9._~-]*)
    echo "make-secrets: POSTGRES_PASSWORD may hold letters, digits and . _ ~ - only, because it becomes part of a URL" >&2
    exit 1
    ;;
esac
keep database-password "${password:-$(random)}"
if [ -n "$password" ] && [ "$password" != "$(cat "$dir/database-password")" ]; then
  echo "make-secrets: POSTGRES_PASSWORD has no effect: $dir/database-password holds another one and is kept" >&2
fi
keep database-url "postgres://svc:$(cat "$dir/database-password")@database:5432/svc"
keep web-database-password "$(random)"
keep web-database-url "postgres://svc_web:$(cat "$dir/web-database-password")@database:5432/svc"
keep auth-token-secret "$(random)"
keep ops-bearer-token "$(random)"
keep session-secret "$(random)"
# The programs run as user 1000 and reject keys that others can read.
chmod 0600 "$dir"/*
[ "$(id -u)" != 0 ] || chown -R 1000:1000 "$dir"

missing=""
for file in idp-client-secret ingest.crt ingest.key enrollment-ca.crt; do
  { [ -f "$dir/$file" ] && [ -s "$dir/$file" ]; } || missing="$missing $dir/$file"
done
# Empty where a setting of .env names no file: another directory than Google's, another signer.
for file in service-account.json enrollment-ca.key; do
  [ -f "$dir/$file" ] || missing="$missing $dir/$file"
done
[ -z "$missing" ] || echo "make-secrets: add these files, then run this again (docs/compose.md):$missing"
