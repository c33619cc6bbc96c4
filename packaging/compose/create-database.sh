#!/bin/sh
# Runs once in the database's container, when its volume is empty: core's role and database. The role is no superuser; it may create
# roles, for the SQL tools of chat and for web. The superuser keeps no password: it can sign in inside the container alone.
set -eu
psql --username postgres --dbname postgres --set ON_ERROR_STOP=1 --set password="$POSTGRES_PASSWORD" --quiet <<'SQL'
create role svc login createrole password :'password';
create database svc owner svc;
alter role postgres password null;
SQL
