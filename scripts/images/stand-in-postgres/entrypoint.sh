#!/bin/sh
# Creates the database in an empty volume, runs the scripts of /docker-entrypoint-initdb.d once, then serves.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  POSTGRES_PASSWORD=$(cat "${POSTGRES_PASSWORD_FILE:?}")
  : "${POSTGRES_PASSWORD:?the superuser password is empty}"
  export POSTGRES_PASSWORD
  printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
  initdb --username postgres --pwfile /tmp/password --auth-local trust --auth-host scram-sha-256 --encoding UTF8 >/dev/null
  rm /tmp/password
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  pg_ctl start --wait --silent --options "-c listen_addresses="
  for script in /docker-entrypoint-initdb.d/*.sh; do
    sh "$script"
  done
  pg_ctl stop --wait --silent
fi
exec postgres -c listen_addresses='*'
