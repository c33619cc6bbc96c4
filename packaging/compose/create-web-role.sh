#!/bin/sh
# Creates web's role, or gives it the present password, and grants what docs/deploy.md lists. Safe to repeat.
set -eu
PGPASSWORD=$(cat "$DATABASE_PASSWORD_FILE")
password=$(cat "$WEB_DATABASE_PASSWORD_FILE")
export PGPASSWORD
psql --host database --username svc --dbname svc --no-psqlrc --set ON_ERROR_STOP=1 --set password="$password" --quiet <<'SQL'
select 'create role svc_web login' where not exists (select from pg_roles where rolname = 'svc_web') \gexec
alter role svc_web password :'password';
grant usage on schema public to svc_web;
grant select on authentication_identity, person to svc_web;
SQL
echo "web's role is ready"
