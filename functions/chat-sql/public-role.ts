/**
 * The group role that has the privileges that core revoked from PUBLIC in one database. Every other role of the server is a member, so that only
 * the chat role loses them, and `drop role` simply removes a membership.
 */
import { sql } from "drizzle-orm";
import type { Database, Executor } from "../store/database/database.ts";
import {
  type RowOf,
  readOne,
  readRows,
  readScalar,
  readScalars,
} from "../store/database/statements.ts";

/** Takes the lock for changes of the chat role or this group. Any constant works if all cores of a database use the same. */
export const lockRoles = (transaction: Executor) =>
  transaction.execute(sql`select pg_advisory_xact_lock(${lockKey}::bigint)`);

const lockKey = 7_303_014_592_618_312n;

const groupName = sql`(select 'svc_public_' || oid from pg_database where datname = current_database())`;

/** Creates the group when the database has none. Returns its name, quoted, and whether it is new. Needs a superuser. */
export const ensurePublicRole = async (
  db: Executor,
): Promise<{ group: string; isNew: boolean }> => {
  const { name, isThere } = await readOne(
    db,
    { name: String, isThere: Boolean },
    sql`
    select quote_ident(${groupName}) as name, exists (select from pg_roles where rolname = ${groupName}) as is_there`,
  );
  if (!isThere) await db.execute(sql.raw(`create role ${name} nologin`));
  return { group: name, isNew: !isThere };
};

type Outsider = RowOf<typeof outsider>;
const outsider = { groupName: String, name: String, admissible: Boolean };

/**
 * Selects the roles that lack the group's privileges, and whether core's role can change that. NOINHERIT keeps them from a member on
 * PostgreSQL 15; later versions decide it for each membership. Roles of the tools and other such groups are left out, whatever the database.
 */
const readOutsiders = (db: Executor, chatRole: string): Promise<Outsider[]> =>
  readRows(
    db,
    outsider,
    sql`
  select quote_ident(g.rolname) as group_name, quote_ident(r.rolname) as name,
    pg_has_role(g.oid, 'member with admin option')
      and (current_setting('server_version_num')::int >= 160000 or not pg_has_role(r.oid, g.oid, 'member')) as admissible
  from pg_roles g cross join pg_roles r
  where g.rolname = ${groupName} and not pg_has_role(r.oid, g.oid, 'usage') and not pg_has_role(g.oid, r.oid, 'member')
    and r.rolname <> ${chatRole} and r.rolname not like all (array['pg\\_%', 'svc\\_chat%', 'svc\\_public\\_%'])
    and (not r.rolcanlogin or has_database_privilege(r.oid, current_database(), 'connect'))
  order by r.rolname`,
  );

/**
 * Makes every role but that of the tools a member of the group, if the database has one. Returns the names of the roles that still lack
 * its privileges. Costs one query when no role is missing.
 */
export const admitRoles = async (db: Database, chatRole: string): Promise<string[]> => {
  const found = await readOutsiders(db, chatRole);
  if (!found.some(({ admissible }) => admissible)) return namesOf(found);
  return db.transaction(async (transaction) => {
    await lockRoles(transaction);
    return admitLocked(transaction, chatRole);
  });
};

/** Does the same in a transaction that holds the lock. */
export const admitLocked = async (transaction: Executor, chatRole: string): Promise<string[]> => {
  const found = await readOutsiders(transaction, chatRole);
  const admissible = found.filter((each) => each.admissible);
  const [first] = admissible;
  if (first !== undefined) {
    const options = await readScalar(
      transaction,
      String,
      sql`select case when current_setting('server_version_num')::int >= 160000 then ' with inherit true, set false' else '' end`,
    );
    await transaction.execute(
      sql.raw(`grant ${first.groupName} to ${namesOf(admissible).join(", ")}${options}`),
    );
  }
  return namesOf(await readOutsiders(transaction, chatRole));
};

const namesOf = (roles: readonly Outsider[]): string[] => roles.map(({ name }) => name);

/** Lets the owner of the database, as whom core usually logs in, admit roles although it is no superuser. */
export const letOwnerAdmit = async (db: Executor, group: string) => {
  const owners = await readScalars(
    db,
    String,
    sql`
    select quote_ident(r.rolname) as name from pg_database d join pg_roles r on r.oid = d.datdba
    where d.datname = current_database() and not pg_has_role(r.oid, ${groupName}, 'member with admin option')`,
  );
  for (const name of owners)
    await db.execute(sql.raw(`grant ${group} to ${name} with admin option`));
};

/** Removes the chat role from the group: an earlier start, with another chat role, may have admitted it. */
export const expelChatRole = async (db: Executor, chatRole: string) => {
  const memberships = await readRows(
    db,
    { groupName: String, name: String, grantor: String },
    sql`
    select quote_ident(g.rolname) as group_name, quote_ident(r.rolname) as name, quote_ident(o.rolname) as grantor
    from pg_auth_members m join pg_roles g on g.oid = m.roleid join pg_roles r on r.oid = m.member join pg_roles o on o.oid = m.grantor
    where g.rolname = ${groupName} and r.rolname = ${chatRole}
      and pg_has_role(g.oid, 'member with admin option') and pg_has_role(o.oid, 'usage')`,
  );
  for (const { groupName: group, name, grantor } of memberships)
    await db.execute(sql.raw(`revoke ${group} from ${name} granted by ${grantor}`));
};
