import { type SQL, sql } from "drizzle-orm";
import type { Executor } from "../store/database.ts";
import { arrayLiteral } from "../store/query-parts.ts";

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
  // Of extensions, and of core.
  "dblink%",
  "set\\_limit",
  "show\\_limit",
  "fleet\\_host\\_refresh",
  "expect\\_ingest\\_cursors",
] as const;

/** A privilege of PUBLIC in the terms of GRANT, and whether this role may revoke it. */
interface PublicGrant extends Record<string, unknown> {
  kind: string;
  privilege: string;
  object: string;
  revocable: boolean;
}

const patterns = sql`array[${sql.join(
  functionPatterns.map((pattern) => sql`${pattern}`),
  sql`, `,
)}]`;

const isPublic = (acl: SQL, privilege: string): SQL =>
  sql`exists (select from aclexplode(${acl}) a where a.grantee = 0 and a.privilege_type = ${privilege})`;

/** Selects what PUBLIC has and the chat role must not have. */
const publicGrants: SQL = sql`
  select 'function' as kind, 'execute' as privilege, p.oid::regprocedure::text as object,
    pg_has_role(p.proowner, 'usage') as revocable
  from pg_proc p
  where p.proname like any (${patterns}) and p.prorettype <> 'trigger'::regtype and p.prokind = 'f'
    and ${isPublic(sql`coalesce(p.proacl, acldefault('f', p.proowner))`, "EXECUTE")}
  union all
  select 'table', 'select', c.oid::regclass::text, pg_has_role(c.relowner, 'usage')
  from pg_class c
  where c.relnamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) and c.relkind in ('r', 'v', 'm', 'p')
    and ${isPublic(sql`c.relacl`, "SELECT")}
  union all
  -- An update of this view sets a parameter.
  select 'table', 'update', c.oid::regclass::text, pg_has_role(c.relowner, 'usage')
  from pg_class c where c.oid = 'pg_catalog.pg_settings'::regclass and ${isPublic(sql`c.relacl`, "UPDATE")}
  union all
  select 'table', 'select (' || string_agg(quote_ident(b.attname), ', ' order by b.attnum) || ')', c.oid::regclass::text,
    pg_has_role(c.relowner, 'usage')
  from pg_attribute b join pg_class c on c.oid = b.attrelid
  where b.attacl is not null and ${isPublic(sql`b.attacl`, "SELECT")} group by c.oid
  union all
  select 'language', 'usage', quote_ident(lanname), pg_has_role(lanowner, 'usage') from pg_language
  where lanpltrusted and ${isPublic(sql`coalesce(lanacl, acldefault('l', lanowner))`, "USAGE")}
  union all
  select 'database', 'temporary', quote_ident(datname), pg_has_role(datdba, 'usage') from pg_database
  where datname = current_database() and ${isPublic(sql`coalesce(datacl, acldefault('d', datdba))`, "TEMPORARY")}`;

/** Returns what PUBLIC still has of what the chat role must not have, in words. */
export const findPublicGrants = async (db: Executor): Promise<string[]> => {
  const found = await db.execute<PublicGrant>(publicGrants);
  return Array.from(found, ({ kind, privilege, object }) => `${privilege} on ${kind} ${object}`);
};

/**
 * Revokes from PUBLIC what the chat role must not have, as far as this role may, and grants it to every other role of the server, so that
 * nobody else loses anything; a role that was created since the last call receives the grants too. Runs in the caller's transaction.
 */
export const revokePublicGrants = async (db: Executor, chatRole: string): Promise<void> => {
  const found = await db.execute<PublicGrant>(publicGrants);
  const revocable = Array.from(found).filter((grant) => grant.revocable);
  for (const [{ kind, privilege }, objects] of grouped(revocable)) {
    await db.execute(sql.raw(`revoke ${privilege} on ${kind} ${objects} from public`));
    await db.execute(sql`insert into chat_revoked_grant (kind, privilege, object)
      select ${kind}, ${privilege}, object from unnest(${arrayOf(revocable, kind, privilege)}::text[]) as object on conflict do nothing`);
  }
  // An earlier boot, with another role for the tools, took this one for one of the others.
  const mine = await db.execute<PublicGrant>(sql`
    update chat_revoked_grant set granted_to = array_remove(granted_to, r.oid) from pg_roles r
    where r.rolname = ${chatRole} and r.oid = any (granted_to) returning kind, privilege, object`);
  for (const [{ kind, privilege }, objects] of grouped([...mine]))
    await db.execute(sql`revoke ${sql.raw(`${privilege} on ${kind} ${objects}`)} from ${sql.identifier(chatRole)}`);
  await grantToOthers(db, chatRole);
};

const others = (chatRole: string): SQL => sql`
  select oid, quote_ident(rolname) as name from pg_roles
  where rolname <> ${chatRole} and rolname not like all (array['pg\\_%', 'svc\\_chat\\_%']) and (rolname = current_user or not rolsuper)`;

/** Returns whether another role lacks what was revoked from PUBLIC: it was created since the last grants. */
export const hasNewRoles = async (db: Executor, chatRole: string): Promise<boolean> => {
  const [row] = await db.execute<{ found: boolean }>(sql`select exists (
    select from (${others(chatRole)}) r, chat_revoked_grant g where r.oid <> all (g.granted_to)) as found`);
  return row?.found ?? false;
};

/** Grants every other role what was revoked from PUBLIC. Runs in the caller's transaction. */
export const grantToOthers = async (db: Executor, chatRole: string): Promise<void> => {
  const found = await db.execute<{ oid: string; name: string }>(sql`${others(chatRole)} order by oid`);
  const oids = `{${Array.from(found, ({ oid }) => oid).join(",")}}`;
  const names = Array.from(found, ({ name }) => name).join(", ");
  const due = await db.execute<PublicGrant>(sql`
    select kind, privilege, object from chat_revoked_grant where not granted_to @> ${oids}::oid[] order by kind, privilege, object`);
  for (const [{ kind, privilege }, objects] of grouped([...due]))
    await db.execute(sql.raw(`grant ${privilege} on ${kind} ${objects} to ${names}`));
  if (due.length > 0) await db.execute(sql`update chat_revoked_grant set granted_to = ${oids}::oid[]`);
};

const arrayOf = (grants: readonly PublicGrant[], kind: string, privilege: string): string =>
  arrayLiteral(grants.filter((each) => each.kind === kind && each.privilege === privilege).map(({ object }) => object));

/** Returns the objects of each kind and privilege as one list: a statement for all of them takes milliseconds. */
const grouped = (grants: readonly PublicGrant[]): [PublicGrant, string][] => {
  const groups = Map.groupBy(grants, ({ kind, privilege }) => `${privilege} on ${kind}`);
  return Array.from(groups.values(), (group) => [
    group[0] as PublicGrant,
    group.map(({ object }) => object).join(", "),
  ]);
};
