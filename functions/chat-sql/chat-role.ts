/**
 * The login role that runs the model's SQL. It can read only the views of schema `chat`. Core's own role, which may be a
 * superuser, never runs the model's SQL.
 */
import { type SQL, sql } from "drizzle-orm";
import { errorCode } from "#kit/describe-error.ts";
import type { Database, Executor } from "../store/database/database.ts";
import {
  asIs,
  type RowOf,
  readOne,
  readRows,
  readScalars,
  texts,
} from "../store/database/statements.ts";
import { workMem } from "./check-plan.ts";
import {
  admitLocked,
  ensurePublicRole,
  expelChatRole,
  letOwnerAdmit,
  lockRoles,
} from "./public-role.ts";
import { chatViews } from "./relations.ts";

/** The login of the role that runs the model's SQL. */
export interface ChatLogin {
  role: string;
  /** The password that this core sets; then the one that a core with exchanged secrets sets during a rotation. */
  passwords: readonly [string, ...string[]];
}

/** Reports why the role cannot be used, so that the tools are off. */
export class ChatRoleFault extends Error {
  override readonly name = "ChatRoleFault";
}

/** The most concurrent queries of all cores; one core runs two. */
const connectionLimit = 32;

/** The settings of the role; core omits those that only a superuser may set if it is none. */
const settings = {
  default_transaction_read_only: "on",
  search_path: "chat, pg_catalog",
  statement_timeout: "5s",
  lock_timeout: "1s",
  idle_in_transaction_session_timeout: "10s",
  work_mem: workMem,
  max_parallel_workers_per_gather: "0",
  jit: "off",
  TimeZone: "UTC",
} as const;
const superuserSettings = { temp_file_limit: "256MB" } as const;

/** The names of roles that core makes begin with this. */
const rolePrefix = "svc_chat_";

const iterations = 4096;

/**
 * Returns the SCRAM-SHA-256 verifier of a password (RFC 5803, as PostgreSQL stores it): the server's log of a CREATE ROLE then holds no
 * password. `password` is ASCII; the same password and salt give the same verifier.
 */
const scramVerifier = async (password: string, salt: string) => {
  const saltBytes = encoder.encode(salt).slice(0, 16);
  const material = await crypto.subtle.importKey("raw", encoder.encode(password), "PBKDF2", false, [
    "deriveBits",
  ]);
  const salted = new Uint8Array(
    await crypto.subtle.deriveBits(
      { name: "PBKDF2", hash: "SHA-256", salt: saltBytes, iterations },
      material,
      256,
    ),
  );
  const stored = new Uint8Array(
    await crypto.subtle.digest("SHA-256", await hmac(salted, "Client Key")),
  );
  const server = await hmac(salted, "Server Key");
  return `SCRAM-SHA-256$${iterations}:${saltBytes.toBase64()}$${stored.toBase64()}:${server.toBase64()}`;
};

const encoder = new TextEncoder();

const hmac = async (
  key: Uint8Array<ArrayBuffer>,
  text: string,
): Promise<Uint8Array<ArrayBuffer>> => {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, encoder.encode(text)));
};

/**
 * Functions of PostgreSQL that every role may execute and that read about other sessions, roles and settings, write, wait, lock, notify,
 * or run a query from a text: as patterns of their names. Those of the last line, of extensions and of core itself, are in other schemas.
 */
const functionPatterns = String.raw`
  pg\_% lo\_% loread lowrite binary\_upgrade\_% has\_%\_privilege txid\_% inet\_client\_%
  inet\_server\_% brin\_%\_range brin\_summarize\_new\_values gin\_clean\_pending\_list
  set\_config current\_setting setseed current\_query currtid2 version query\_to\_xml%
  cursor\_to\_xml% table\_to\_xml% schema\_to\_xml% database\_to\_xml% ts\_stat ts\_rewrite
  to\_reg% col\_description obj\_description shobj\_description format\_type aclexplode
  row\_security\_active mxid\_age getpgusername getdatabaseencoding current\_database
  current\_schema%
  dblink% set\_limit show\_limit fleet\_host\_refresh expect\_ingest\_cursors`
  .trim()
  .split(/\s+/);

/** A privilege of PUBLIC in the terms of GRANT. */
const publicGrant = { kind: String, privilege: String, object: String };

const patterns = sql`${texts(functionPatterns)}`;

const isPublic = (acl: SQL, privilege: string): SQL =>
  sql`exists (select from aclexplode(${acl}) a where a.grantee = 0 and a.privilege_type = ${privilege})`;

/** Selects the privileges that PUBLIC has and the chat role must not have. */
const publicGrants: SQL = sql`
  select 'function' as kind, 'execute' as privilege, p.oid::regprocedure::text as object
  from pg_proc p
  where p.proname like any (${patterns}) and p.prorettype <> 'trigger'::regtype and p.prokind = 'f'
    and ${isPublic(sql`coalesce(p.proacl, acldefault('f', p.proowner))`, "EXECUTE")}
  union all
  select 'table', 'select', c.oid::regclass::text
  from pg_class c
  where c.relnamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) and c.relkind in ('r', 'v', 'm', 'p')
    and ${isPublic(sql`c.relacl`, "SELECT")}
  union all
  -- An update of this view sets a parameter.
  select 'table', 'update', c.oid::regclass::text
  from pg_class c where c.oid = 'pg_catalog.pg_settings'::regclass and ${isPublic(sql`c.relacl`, "UPDATE")}
  union all
  select 'table', 'select (' || string_agg(quote_ident(b.attname), ', ' order by b.attnum) || ')', c.oid::regclass::text
  from pg_attribute b join pg_class c on c.oid = b.attrelid
  where b.attacl is not null and ${isPublic(sql`b.attacl`, "SELECT")} group by c.oid
  union all
  select 'language', 'usage', quote_ident(lanname) from pg_language
  where lanpltrusted and ${isPublic(sql`coalesce(lanacl, acldefault('l', lanowner))`, "USAGE")}
  union all
  select 'database', 'temporary', quote_ident(datname) from pg_database
  where datname = current_database() and ${isPublic(sql`coalesce(datacl, acldefault('d', datdba))`, "TEMPORARY")}`;

/** Describes the privileges that PUBLIC still has and the chat role must not have. */
const findPublicGrants = async (db: Executor): Promise<string[]> => {
  const found = await readRows(db, publicGrant, publicGrants);
  return found.map(({ kind, privilege, object }) => `${privilege} on ${kind} ${object}`);
};

/**
 * Revokes from PUBLIC the privileges that the chat role must not have, and grants them to a group of which every other role is a member, so that
 * no other role loses any. Runs in the caller's transaction, which has the lock; needs a superuser.
 */
const revokePublicGrants = async (transaction: Executor, chatRole: string) => {
  const { group, isNew } = await ensurePublicRole(transaction);
  // In a restored or copied database PUBLIC lacks these grants, and the group that has them is another database's.
  if (isNew) await transaction.execute(sql.raw(grantRevokedTo(group)));
  const found = await readRows(transaction, publicGrant, publicGrants);
  for (const [what, grants] of Map.groupBy(
    found,
    ({ kind, privilege }) => `${privilege} on ${kind}`,
  )) {
    const [{ kind, privilege }] = grants as [RowOf<typeof publicGrant>];
    const objects = grants.map(({ object }) => object);
    // One statement for all of them takes milliseconds.
    await transaction.execute(sql.raw(`grant ${what} ${objects.join(", ")} to ${group}`));
    await transaction.execute(sql.raw(`revoke ${what} ${objects.join(", ")} from public`));
    await transaction.execute(sql`insert into chat_revoked_grant (kind, privilege, object)
      select ${kind}, ${privilege}, object from unnest(${texts(objects)}) as object on conflict do nothing`);
  }
  await admitLocked(transaction, chatRole);
  await letOwnerAdmit(transaction, group);
};

/** Another version of PostgreSQL may lack an object, and the database may have been renamed. */
const grantRevokedTo = (group: string) => `do $$
  declare revoked record;
  begin
    for revoked in select kind, privilege, case kind when 'database' then quote_ident(current_database()) else object end as object
      from chat_revoked_grant
    loop
      begin
        execute format('grant %s on %s %s to ${group}', revoked.privilege, revoked.kind, revoked.object);
      exception when undefined_function or undefined_table or undefined_column or undefined_object then null;
      end;
    end loop;
  end $$`;

/**
 * Creates or repairs the role, and takes from PUBLIC what the role must not have, when core is a superuser. Returns the login and what
 * PUBLIC keeps. The name and the password follow from the database and the secret, so that any number of cores share the role, and a
 * repeated call changes nothing. The password of `secretPrevious` is returned, too. Throws `ChatRoleFault` when core's role may not create
 * it, or when somebody gave it more than it may have.
 */
export const makeChatRole = async (
  db: Database,
  {
    secret,
    secretPrevious,
    revokePublic,
  }: { secret: string; secretPrevious: string | null; revokePublic: boolean },
): Promise<{ login: ChatLogin; exposures: string[] }> =>
  db.transaction(async (transaction) => {
    await lockRoles(transaction);
    const server = await readServer(transaction);
    const role = `${rolePrefix}${server.databaseOid}`;
    const passwordOf = (by: string) => derive(by, `svc chat role password\0${server.databaseOid}`);
    const password = await passwordOf(secret);
    const others = secretPrevious === null ? [] : [await passwordOf(secretPrevious)];
    const verifier = await scramVerifier(
      password,
      await derive(secret, `svc chat role salt\0${server.databaseOid}`),
    );
    try {
      const attributes = sql.raw(
        `login noinherit valid until 'infinity' connection limit ${connectionLimit} password '${verifier}'`,
      );
      const verb = sql.raw(server.roles.includes(role) ? "alter" : "create");
      await transaction.execute(sql`${verb} role ${sql.identifier(role)} ${attributes}`);
      const chosen = { ...settings, ...(server.isSuperuser ? superuserSettings : {}) };
      for (const [name, value] of Object.entries(chosen))
        await transaction.execute(
          sql.raw(
            `alter role "${role}" set ${name} = ${name === "search_path" ? value : `'${value}'`}`,
          ),
        );
    } catch (cause) {
      if (
        errorCode(cause) !== insufficientPrivilege &&
        errorCode((cause as Error).cause) !== insufficientPrivilege
      )
        throw cause;
      throw new ChatRoleFault("core's database role may not create roles", { cause });
    }
    await grantViews(transaction, role);
    if (revokePublic && server.isSuperuser) await revokePublicGrants(transaction, role);
    await rejectPowerful(transaction, role);
    return {
      login: { role, passwords: [password, ...others] },
      exposures: await findPublicGrants(transaction),
    };
  });

/** Checks a role that an administrator made. Throws `ChatRoleFault` when it has more than it may have. Returns what PUBLIC keeps. */
export const adoptChatRole = async (
  db: Database,
  { role, revokePublic }: { role: string; revokePublic: boolean },
): Promise<{ exposures: string[] }> =>
  db.transaction(async (transaction) => {
    await lockRoles(transaction);
    const server = await readServer(transaction);
    if (!server.roles.includes(role))
      throw new ChatRoleFault("the role of SVC_CHAT_DATABASE_URL does not exist on this server");
    await grantViews(transaction, role);
    await expelChatRole(transaction, role);
    if (revokePublic && server.isSuperuser) await revokePublicGrants(transaction, role);
    await rejectPowerful(transaction, role);
    return { exposures: await findPublicGrants(transaction) };
  });

const insufficientPrivilege = "42501";

const readServer = async (db: Executor) => {
  const isThere = chatViews.map((view) => sql`to_regclass(${`chat.${view}`}) is not null`);
  const server = await readOne(
    db,
    { databaseOid: String, isSuperuser: Boolean, isReady: Boolean, roles: asIs<string[]> },
    sql`
    select d.oid as database_oid, (select rolsuper from pg_roles where rolname = current_user) as is_superuser,
      ${sql.join(isThere, sql` and `)} and to_regprocedure('chat.string_agg(text, text)') is not null as is_ready,
      array(select rolname::text from pg_roles) as roles
    from pg_database d where d.datname = current_database()`,
  );
  if (!server.isReady) throw new ChatRoleFault("core's database role may not create schema chat");
  return server;
};

const grantViews = async (db: Executor, role: string) => {
  const name = sql.identifier(role);
  const views = sql.raw(chatViews.map((view) => `chat.${view}`).join(", "));
  await db.execute(sql`grant usage on schema chat to ${name}`);
  await db.execute(sql`grant select on ${views} to ${name}`);
};

/** Throws `ChatRoleFault` when the role has an attribute, a membership, an object or a privilege beyond the views and PUBLIC's. */
const rejectPowerful = async (db: Executor, role: string) => {
  const found = await readScalars(
    db,
    String,
    sql`
    with chat as (select * from pg_roles where rolname = ${role}),
    here as (select oid from pg_database where datname = current_database()),
    allowed as (
      select c.oid from pg_class c where c.relnamespace = 'chat'::regnamespace and c.relname = any(${texts(chatViews)})
    )
    select 'is a superuser' as fault from chat where rolsuper
    union all select 'may create roles' from chat where rolcreaterole
    union all select 'may create databases' from chat where rolcreatedb
    union all select 'may replicate' from chat where rolreplication
    union all select 'bypasses row-level security' from chat where rolbypassrls
    union all select 'may not log in' from chat where not rolcanlogin
    -- The group of another database gives nothing in this one, unless this one is a copy.
    union all select 'is a member of ' || g.rolname from pg_auth_members m join chat on chat.oid = m.member join pg_roles g on g.oid = m.roleid
      where g.rolname !~ '^svc_public_[0-9]+$' or exists (
        select from pg_shdepend d where d.refclassid = 'pg_authid'::regclass and d.refobjid = g.oid
          and d.dbid = (select oid from here))
    union all select 'owns ' || pg_describe_object(d.classid, d.objid, 0) from pg_shdepend d join chat on chat.oid = d.refobjid
      where d.refclassid = 'pg_authid'::regclass and d.deptype = 'o'
        and d.dbid in (0, (select oid from here))
    union all select 'may create in schema ' || n.nspname from pg_namespace n, chat where has_schema_privilege(chat.oid, n.oid, 'create')
    union all select 'may create schemas' from chat where has_database_privilege(chat.oid, current_database(), 'create')
    union all select 'may read or write ' || c.oid::regclass from pg_class c, chat
      where c.relkind in ('r', 'v', 'm', 'p', 'f') and c.oid not in (select oid from allowed)
        and c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)
        and has_any_column_privilege(chat.oid, c.oid, 'select, insert, update, references')
    union all select 'owns something in another database' from pg_shdepend d join chat on chat.oid = d.refobjid
      where d.refclassid = 'pg_authid'::regclass and d.deptype = 'o'
        and d.dbid not in (0, (select oid from here))
    union all select 'may write ' || c.oid::regclass from pg_class c, chat
      where c.relkind in ('r', 'v', 'm', 'p', 'f') and c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
        and (has_any_column_privilege(chat.oid, c.oid, 'insert, update') or has_table_privilege(chat.oid, c.oid, 'delete, truncate'))
    union all select 'may use ' || c.oid::regclass from pg_class c, chat
      where c.relkind = 'S' and has_sequence_privilege(chat.oid, c.oid, 'usage, select, update')
    union all select 'was granted a privilege on ' || pg_describe_object(d.classid, d.objid, 0)
      from pg_shdepend d join chat on chat.oid = d.refobjid
      where d.refclassid = 'pg_authid'::regclass and d.deptype = 'a'
        and d.dbid in (0, (select oid from here))
        and d.classid not in ('pg_database'::regclass, 'pg_namespace'::regclass)
        and not (d.classid = 'pg_class'::regclass and d.objid in (select oid from allowed))`,
  );
  const faults = [...new Set(found)];
  if (faults.length > 0)
    throw new ChatRoleFault(`the database role ${role} ${faults.slice(0, 5).join(", ")}`);
};

const derive = async (secret: string, purpose: string) =>
  (await hmac(encoder.encode(secret), purpose)).toHex();
