/** Statements that neither the parser nor the role may allow, by kind, one on each line. */
const byKind = {
  "programs and files": String.raw`
copy (select 1) to program 'id'
copy person to program 'curl http://127.0.0.1'
copy person to '/tmp/person.csv'
copy person from '/etc/passwd'
copy person from program 'id'
copy (select * from person) to stdout
select pg_read_file('/etc/passwd')
select pg_read_file('postgresql.conf', 0, 100)
select pg_catalog.pg_read_file('/etc/passwd')
select "pg_read_file"('/etc/passwd')
select U&"pg\005fread\005ffile"('/etc/passwd')
select pg_read_binary_file('/etc/passwd')
select * from pg_read_file('/etc/passwd') f(line)
select pg_ls_dir('/')
select pg_ls_dir('.') from collectors
select pg_stat_file('/etc/passwd')
select pg_file_write('/tmp/x', 'y', false)
select lo_import('/etc/passwd')
select lo_export(1, '/tmp/x')
load 'auto_explain'
create extension file_fdw
create extension dblink
create function f() returns int language c as 'libc', 'system'`,

  "other servers": `
select * from dblink('host=127.0.0.1', 'select 1') as t(a int)
select dblink_connect('host=127.0.0.1')
select dblink_exec('host=127.0.0.1', 'drop table person')
create server s foreign data wrapper postgres_fdw
create user mapping for public server s
create subscription s connection 'host=127.0.0.1' publication p
create publication p for all tables
import foreign schema public from server s into chat
select pg_create_logical_replication_slot('a', 'pgoutput')
select pg_create_physical_replication_slot('a')
select pg_drop_replication_slot('a')
select pg_logical_emit_message(true, 'a', 'b')
select pg_replication_origin_create('a')
select * from pg_logical_slot_get_changes('a', null, null)`,

  "large objects": String.raw`
select lo_create(0)
select lo_create(424242)
select lo_creat(-1)
select lo_from_bytea(0, '\x00')
select lo_put(1, 0, '\x00')
select lo_open(1, 393216)
select loread(0, 100)
select lowrite(0, '\x00')
select lo_lseek(0, 0, 0)
select lo_tell(0)
select lo_truncate(0, 0)
select lo_close(0)
select t.lo_create from unnest(array[0::oid]) t`,

  waiting: `
select pg_sleep(10)
select pg_catalog.pg_sleep(10)
select "pg_sleep"(10)
select PG_SLEEP(10)
select pg_sleep/**/(10)
select pg_sleep_for('10 s')
select pg_sleep_until(now() + interval '10 s')
select * from pg_sleep(10)
select * from rows from (pg_sleep(10), generate_series(1, 2)) as t
select (10).pg_sleep
select (10::double precision).pg_sleep
select t.pg_sleep from generate_series(10, 11) t
select generate_series.pg_sleep from generate_series(10, 11)
select count(*) from generate_series(10, 11) t where t.pg_sleep is not null
select "coalesce".pg_sleep, 1 as pg_sleep from coalesce(10)
select t.pg_sleep, 1 as pg_sleep from coalesce(10) t
select "int4".pg_sleep, 1 as pg_sleep from cast(10 as int)
select "extract".pg_sleep, 1 as pg_sleep from extract(day from interval '10 days')
select t.pg_sleep, u.pg_sleep from generate_series(10, 11) t, (select 1 as pg_sleep) u
select t.pg_sleep from rows from (generate_series(10, 11)) t, (select 1 as pg_sleep) u
select case when true then pg_sleep(10) end
select 1 where pg_sleep(10) is null
select 1 order by pg_sleep(10)
select 1 group by pg_sleep(10)
select count(*) filter (where pg_sleep(10) is null) from generate_series(1, 2)
select sum(1) over (partition by pg_sleep(10)::text) from generate_series(1, 2)
with x as (select pg_sleep(10)) select * from x
select (select pg_sleep(10))
select array(select pg_sleep(10))
select exists (select 1 from pg_sleep(10) where true)
select 1 limit (select 1 from pg_sleep(10))
select 1 offset (select 0 from pg_sleep(10))
select * from generate_series(1, 2) a join lateral (select pg_sleep(10)) b on true
values (pg_sleep(10))
select 1 union all select 1 from pg_sleep(10)
select coalesce(null, pg_sleep(10)::text)`,

  settings: `
select set_config('statement_timeout', '0', false)
select set_config('transaction_read_only', 'off', true)
select set_config('role', 'postgres', false)
select pg_catalog.set_config('search_path', 'public', false)
select * from set_config('search_path', 'public', false)
select current_setting('data_directory')
select current_setting('is_superuser')
select current_setting('server_version')
update pg_settings set setting = '0' where name = 'statement_timeout'
select name from pg_catalog.pg_settings
select pg_settings_get_flags('port')
select setseed(0.5)
alter system set log_statement = 'all'
alter role current_user superuser
alter role current_user set statement_timeout = 0
alter database postgres set work_mem = '1GB'
set role postgres
set session authorization postgres`,

  transactions: `
commit; insert into person values (null)
commit; drop table person
commit; select * from person
rollback; begin; update certificate set status = 'revoked'; commit
begin; delete from audit_event; commit
set transaction read write; insert into deployment values (true)
select 1; drop table person
select 1; commit; drop table person
select 1) q; drop table person; --
select 1) q limit 1; delete from audit_event; --
select 1) q; commit; drop table person; select * from (select 1
select 1) q, person; --
prepare transaction 'x'
commit prepared 'x'
savepoint x
release savepoint x
set transaction snapshot '00000003-0000001B-1'
set constraints person_pkey deferred; delete from person`,

  writes: `
insert into person (user_id) values ('00000000-0000-0000-0000-000000000000')
insert into audit_events (id) values ('00000000-0000-0000-0000-000000000000')
insert into chat.enrollment_policies (name) values ('x')
update collector_identity set revoked_at = now()
update chat.enrollment_policies set frozen_at = now()
delete from audit_event
delete from chat.heartbeats
truncate audit_event
merge into person p using person q on false when matched then delete
with x as (delete from audit_event returning *) select * from x
with x as (insert into deployment values (true) returning *) select * from x
with x as (update certificate set status = 'active' returning *) select * from x
with x as (delete from chat.enrollment_policies returning *) select count(*) from x
select * into stolen from collectors
select * into temp stolen from heartbeats
create table stolen as select 1
create table chat.stolen (a int)
create table public.stolen (a int)
create temp table stolen (a int)
create temp view stolen as select 1
create view chat.stolen as select 1
create materialized view stolen as select 1
create function f() returns int language sql as 'select 1'
create function pg_temp.f() returns int language sql as 'select 1'
create procedure p() language plpgsql as 'begin end'
create type chat.t as (a int)
create schema s
create sequence s
create role r
create database d
create trigger t after insert on person execute function f()
create rule r as on select to person do instead select 1
create operator chat.+ (leftarg = int, function = abs)
drop table person
drop schema chat cascade
drop view chat.fleet
drop function fleet_drift
drop role postgres
alter table person add column a int
alter view chat.fleet owner to current_user
grant select on person to public
grant pg_read_all_data to current_user
revoke all on person from postgres
reassign owned by postgres to current_user
comment on table person is 'x'
security label on table person is 'x'
refresh materialized view m
call p()
lock table person in access exclusive mode
do $$ begin perform 1; end $$
do language plpgsql $$ begin execute 'drop table person'; end $$
reindex table person
cluster person
checkpoint
execute p
fetch all from c
close c
select * from person for update
select * from chat.fleet for update
select * from chat.fleet for share
select nextval('audit_seq')
select setval('audit_seq', 1)`,

  "secrets and tables": `
select rolpassword from pg_catalog.pg_authid
select usename, passwd from pg_shadow
select token_sha256 from bootstrap_token
select token_sha256 from public.bootstrap_token
select * from "public"."bootstrap_token"
table bootstrap_token
table public.person
select * from only public.person
select p from public.person p
select count(*) from public.authentication_identity
select certificate_pem, chain_pem from public.certificate
select yaml from public.collector_config
select payload from public.ingest_envelope
select data from public.ingest_block
select payload from public.ingest_envelope_default
select c.*, t.* from collectors c, public.bootstrap_token t
select (select token_sha256 from public.bootstrap_token limit 1)
select * from collectors where exists (select 1 from public.person)
select * from collectors where identity in (select primary_email from public.person)
select 1 union all select 1 from public.person
with x as (select * from public.person) select * from x
select * from pg_authid, (with pg_authid as (select 1) select * from pg_authid) x
select * from (with person as (select 1) select * from person) a, public.person b
select * from collectors c join lateral (select * from public.person) p on true
select * from public.person tablesample system (100)
select public.person from public.person
select array(select primary_email from public.person)`,

  "sessions, roles and catalogs": `
select query from pg_catalog.pg_stat_activity
select * from pg_stat_get_activity(null)
select relname from pg_catalog.pg_class
select prosrc from pg_proc
select subname from pg_subscription
select has_table_privilege('person', 'select')
select has_database_privilege('postgres', 'connect')
select pg_has_role('postgres', 'member')
select pg_get_userbyid(10)
select pg_get_viewdef('chat.fleet'::regclass)
select pg_relation_size('chat.fleet')
select pg_relation_filepath('chat.fleet')
select pg_database_size('postgres')
select pg_tablespace_location(1663)
select current_schemas(true)
select to_regclass('person')
select to_regrole('postgres')
select obj_description(1, 'pg_class')
select col_description(1, 1)
select shobj_description(1, 'pg_database')
select pg_describe_object(1259, 1259, 0)
select format_type(23, null)
select t.pg_typeof from generate_series(1, 2) t
select c.pg_typeof from collectors c, (select 1) x
select c.pg_column_size from heartbeats c`,

  "queries in texts": `
select query_to_xml('select * from person', true, true, '')
select query_to_xml('select pg_sleep(10)', true, true, '')
select query_to_xmlschema('select * from person', true, true, '')
select query_to_xml_and_xmlschema('select * from person', true, true, '')
select table_to_xml('person', true, true, '')
select table_to_xmlschema('person', true, true, '')
select schema_to_xml('public', true, true, '')
select database_to_xml(true, true, '')
select cursor_to_xml('c', 1, true, true, '')
select * from ts_stat('select to_tsvector(primary_email) from person')
select ts_rewrite('a'::tsquery, 'select a, b from person')
prepare p as select * from person
explain analyze select * from person
explain (analyze) delete from audit_event
declare c cursor for select * from person`,

  "locks, notices and other sessions": `
select pg_advisory_lock(1, 2)
select count(*) from generate_series(1, 2) t where pg_try_advisory_lock(t)
select pg_notify('revocations', 'x')
select pg_notify(name, name) from enrollment_policies
select pg_terminate_backend(pid) from pg_stat_activity
select pg_stat_reset_shared('bgwriter')
select pg_create_restore_point('x')
select pg_backup_start('x')
select pg_import_system_collations('chat')
select gin_clean_pending_list('fleet_host_search')
select brin_summarize_range('fleet_host_search', 1)
select fleet_host_refresh(null)
select public.fleet_host_refresh(array['00000000-0000-0000-0000-000000000000']::uuid[])
select public.expect_ingest_cursors(null, null, null, null)
select public.set_limit(0.9)`,
} as const;

/** Statements over relations that nobody may read and functions that nobody may call, with the names of these. */
const byName: readonly [statement: (name: string) => string, names: string][] = [
  [
    (relation) => `select * from ${relation}`,
    `
pg_hba_file_rules pg_file_settings pg_config pg_largeobject pg_largeobject_metadata pg_settings
pg_authid pg_shadow pg_user_mapping pg_user_mappings person public.enrollment_reservation
public.proof_use public.ingest_cursor public.fleet_host public.collector_identity
public.deployment public.audit_chain public.schema_migration public.chat_revoked_grant
pg_stat_activity pg_stat_ssl pg_stat_replication pg_stat_database pg_stat_user_tables
pg_statio_user_tables pg_stats pg_statistic pg_statistic_ext_data pg_locks pg_roles pg_user
pg_group pg_auth_members pg_db_role_setting pg_database pg_tablespace pg_class pg_attribute
pg_namespace pg_type pg_tables pg_views pg_indexes pg_trigger pg_extension
pg_available_extensions pg_prepared_statements pg_prepared_xacts pg_cursors pg_subscription
pg_replication_slots pg_shseclabel pg_timezone_names information_schema.tables
information_schema.columns information_schema.enabled_roles information_schema.role_table_grants`,
  ],
  [
    (call) => `select ${call}()`,
    `
pg_current_logfile version pg_reload_conf pg_rotate_logfile pg_conf_load_time
pg_postmaster_start_time pg_backend_pid pg_my_temp_schema pg_is_in_recovery inet_server_addr
inet_client_addr current_database current_query pg_advisory_unlock_all pg_listening_channels
pg_notification_queue_usage pg_export_snapshot pg_stat_reset pg_stat_clear_snapshot pg_switch_wal
pg_promote pg_wal_replay_pause pg_current_wal_lsn txid_current pg_current_xact_id
pg_current_snapshot`,
  ],
  [
    (call) => `select ${call}(1)`,
    `
lo_get lo_unlink pg_stat_get_backend_activity pg_get_functiondef pg_typeof pg_advisory_lock
pg_advisory_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared pg_advisory_xact_lock
pg_advisory_xact_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared
pg_advisory_unlock pg_cancel_backend pg_terminate_backend pg_log_backend_memory_contexts
pg_blocking_pids`,
  ],
  [
    (call) => `select * from ${call}()`,
    `
pg_ls_logdir pg_ls_waldir pg_ls_tmpdir pg_ls_archive_statusdir pg_stat_get_wal_senders
pg_show_all_settings pg_lock_status`,
  ],
];

/** Statements that the parser refuses and the role alone refuses too. */
export const hostileStatements = [
  ...Object.values(byKind).flatMap((text) => text.trim().split("\n")),
  ...byName.flatMap(([statement, names]) => names.trim().split(/\s+/).map(statement)),
];

/**
 * Hostile statements that the role alone does not refuse, because PostgreSQL has no privilege for them: they read the names of the session
 * itself, or whether an object has some name. The parser refuses them.
 */
export const refusedByParserOnly = [
  "select current_user",
  "select session_user",
  "select current_catalog",
  "select user",
  "select 'pg_authid'::regclass",
  "select 10::regrole",
  "select 'pg_sleep(double precision)'::regprocedure",
  "select 'int4'::regtype",
  "select c.quote_literal from heartbeats c",
  "select random()",
  "select gen_random_uuid()",
  "select clock_timestamp()",
  "select repeat('x', 10)",
  "select format('%s', 1)",
  "select convert_from('a'::bytea, 'utf8')",
  "select xmlelement(name a)",
  "select * from xmltable('/a' passing '<a/>' columns b text)",
  "select * from collectors tablesample system (1)",
  "select 1 operator(pg_catalog.+) 1",
  "select 'a' collate \"C\"",
  "with pg_authid as (select 1) select * from pg_authid",
  "select $1",
  "select x.pg_sleep from generate_series(1, 3) x, (select 1 from unnest(array[1]) as x(pg_sleep)) y",
  "select pg_sleep.pg_sleep from generate_series(1, 1) as pg_sleep(a)",
];

/** A statement without end: only the timeout of the role ends it. */
export const endlessStatement =
  "with recursive r as (select 1 as i union all select i from r) select count(*) from r";
