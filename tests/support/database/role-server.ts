import { type ChatSqlNeeds, createChatSql } from "#functions/chat-sql/create-chat-sql.ts";
import { fleetThresholds } from "#functions/domain/fleet/thresholds.ts";
import { readMigrations } from "#functions/node/read-migrations.ts";
import { type ConnectedDatabase, connectDatabase } from "#functions/store/database/database.ts";
import { migrate } from "#functions/store/database/migrate.ts";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";

/** A connection to a database of the server, with its URL. */
export type RoleConnection = ConnectedDatabase & { url: string };

const thresholds = fleetThresholds({ heartbeatIntervalSeconds: 60 });

/** The rules of a fleet without hosts. */
export const emptyFleetRules = () => ({
  now: new Date(),
  thresholds,
  versions: [],
  platforms: [],
  unsupportedVersions: { "svc-collector": [], otelcol: [] },
  outages: [],
});

/** Returns the URL of a database for another role. */
export const urlFor = (url: string, role: string): string =>
  Object.assign(new URL(url), { username: role }).href;

/** Starts a PostgreSQL server for tests of roles and privileges, which belong to the whole server. */
export const startRoleServer = async () => {
  const server = await startEmbeddedPostgres({ tcp: true });
  const admin = connectDatabase({ url: server.url(), connectionsMax: 1, deadlineMs: 60_000 });
  const opened: ConnectedDatabase[] = [];
  let database = "";
  let count = 0;

  /** Connects to the newest database, or to `name`, as a role. */
  const connect = (role = "postgres", name = database) => {
    const url = urlFor(server.url(name), role);
    const connection = connectDatabase({ url, connectionsMax: 2, deadlineMs: 60_000 });
    opened.push(connection);
    return { ...connection, url };
  };

  await admin.sql.unsafe("create database migrated");
  const { sql, close } = connect("postgres", "migrated");
  await migrate(sql, await readMigrations());
  await close();

  return {
    server,
    admin,
    connect,
    /** Creates the roles of the server that do not exist. */
    async createRoles(...names: string[]): Promise<void> {
      for (const name of names)
        await admin.sql.unsafe(`do $$ begin
          if not exists (select from pg_roles where rolname = '${name}') then create role ${name} login; end if; end $$`);
    },
    /** Creates a database of its own, migrated by `role`; connects as that role. */
    async create(role = "postgres") {
      count += 1;
      database = `fleet_${count}`;
      const template = role === "postgres" ? "migrated" : "template1";
      await admin.sql.unsafe(`create database ${database} owner ${role} template ${template}`);
      const core = connect(role);
      await migrate(core.sql, await readMigrations());
      return { ...core, database };
    },
    /** Creates the SQL tools as a core's boot does. */
    tools: ({ db, url }: RoleConnection, over: Partial<ChatSqlNeeds> = {}) =>
      createChatSql({
        db,
        locate: async () => url,
        url: null,
        secret: "s".repeat(32),
        thresholds,
        readRules: async () => emptyFleetRules(),
        ...over,
      }),
    async stop() {
      await Promise.all([admin, ...opened].map((each) => each.close(1)));
      await server.stop("immediate");
    },
  };
};
