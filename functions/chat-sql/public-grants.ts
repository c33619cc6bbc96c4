import { type SQL, sql } from "drizzle-orm";
import type { Executor } from "../store/database/database.ts";
import { arrayLiteral } from "../store/database/statements.ts";
import { admitLocked, ensurePublicRole, letOwnerAdmit } from "./public-role.ts";

/**
 * Functions of PostgreSQL that every role may execute and that read about other sessions, roles and settings, write, wait, lock, notify,
 * or run a query from a text: as patterns of their names. Those of extensions and of core itself are in other schemas.
 */
const functionPatterns = [
  "pg\\_%",
  "lo\\_%",
  "loread",
  "lowrite",
  "binary\\_upgrade\\_%",
  "has\\_%\\_privilege",
  "txid\\_%",
  "inet\\_client\\_%",
  "inet\\_server\\_%",
  "brin\\_%\\_range",
  "brin\\_summarize\\_new\\_values",
  "gin\\_clean\\_pending\\_list",
  "set\\_config",
  "current\\_setting",
  "setseed",
  "current\\_query",
  "currtid2",
  "version",
  "query\\_to\\_xml%",
  "cursor\\_to\\_xml%",
  "table\\_to\\_xml%",
  "schema\\_to\\_xml%",
  "database\\_to\\_xml%",
  "ts\\_stat",
  "ts\\_rewrite",
  "to\\_reg%",
  "col\\_description",
  "obj\\_description",
  "shobj\\_description",
  "format\\_type",
  "aclexplode",
  "row\\_security\\_active",
  "mxid\\_age",
  "getpgusername",
  "getdatabaseencoding",
  "current\\_database",
  "current\\_schema%",
  // Functions of extensions, and of core itself.
  "dblink%",
  "set\\_limit",
  "show\\_limit",
  "fleet\\_host\\_refresh",
  "expect\\_ingest\\_cursors",
] as const;

/** A privilege of PUBLIC in the terms of GRANT. */
interface PublicGrant extends Record<string, unknown> {
  kind: string;
  privilege: string;
  object: string;
}

const patterns = sql`array[${sql.join(
  functionPatterns.map((pattern) => sql`${pattern}`),
  sql`, `,
)}]`;

const isPublic = (acl: SQL, privilege: string): SQL =>
  sql`exists (select from aclexplode(${acl}) a where a.grantee = 0 and a.privilege_type = ${privilege})`;

/** Selects what PUBLIC has and the chat role must not have. */
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

/** Returns what PUBLIC still has of what the chat role must not have, in words. */
export const findPublicGrants = async (db: Executor): Promise<string[]> => {
  const found = await db.execute<PublicGrant>(publicGrants);
  return Array.from(found, ({ kind, privilege, object }) => `${privilege} on ${kind} ${object}`);
};

/**
 * Revokes from PUBLIC what the chat role must not have and grants it to a group of which every other role is a member, so that nobody else
 * loses anything. Runs in the caller's transaction, which holds the lock; needs a superuser.
 */
export const revokePublicGrants = async (
  transaction: Executor,
  chatRole: string,
): Promise<void> => {
  const { group, isNew } = await ensurePublicRole(transaction);
  // In a restored or copied database PUBLIC lacks these grants, and the group that has them is another database's.
  if (isNew) await transaction.execute(sql.raw(grantTakenTo(group)));
  const found = await transaction.execute<PublicGrant>(publicGrants);
  for (const grants of Map.groupBy(
    found,
    ({ kind, privilege }) => `${privilege} on ${kind}`,
  ).values()) {
    const [{ kind, privilege }] = grants as [PublicGrant];
    const objects = grants.map(({ object }) => object);
    // One statement for all of them takes milliseconds.
    await transaction.execute(
      sql.raw(`grant ${privilege} on ${kind} ${objects.join(", ")} to ${group}`),
    );
    await transaction.execute(
      sql.raw(`revoke ${privilege} on ${kind} ${objects.join(", ")} from public`),
    );
    await transaction.execute(sql`insert into chat_revoked_grant (kind, privilege, object)
      select ${kind}, ${privilege}, object from unnest(${arrayLiteral(objects)}::text[]) as object on conflict do nothing`);
  }
  await admitLocked(transaction, chatRole);
  await letOwnerAdmit(transaction, group);
};

/** Another version of PostgreSQL may lack an object, and the database may have been renamed. */
const grantTakenTo = (group: string) => `do $$
  declare taken record;
  begin
    for taken in select kind, privilege, case kind when 'database' then quote_ident(current_database()) else object end as object
      from chat_revoked_grant
    loop
      begin
        execute format('grant %s on %s %s to ${group}', taken.privilege, taken.kind, taken.object);
      exception when undefined_function or undefined_table or undefined_column or undefined_object then null;
      end;
    end loop;
  end $$`;
