import { chown, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemEntropy } from "#kit/entropy.ts";
import { findPorts } from "#scripts/ports.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { canRun, installPackage } from "../install-package.ts";
import { startListening } from "../listening-program.ts";

/** PgBouncer's `pool_mode`: how long a client keeps its server connection. */
export type PoolMode = "session" | "transaction" | "statement";

/** A PgBouncer in front of the server of a database. */
export type RunningPgBouncer = Awaited<ReturnType<typeof startPgBouncer>>;

/** Reports whether `startPgBouncer` can start: without PgBouncer, tests that need it are reported as skipped. */
export const canStartPgBouncer = () => canRun("pgbouncer", program);

/**
 * Starts PgBouncer in front of the server of `databaseUrl`, with connections for the role of the URL and for `roles`, which have no
 * password. Installs Debian's package where it is missing and this process is root; otherwise throws.
 */
export const startPgBouncer = async (
  databaseUrl: string,
  {
    mode,
    roles = [],
    settings = {},
  }: {
    mode: PoolMode;
    roles?: readonly string[];
    settings?: Readonly<Record<string, string | number>>;
  },
) => {
  await installPackage("pgbouncer", program);
  const { hostname, port, username, password } = new URL(databaseUrl);
  const { path: dir, remove } = await openTemporaryFolder("pgbouncer");
  const [listenPort = 0] = await findPorts(1, systemEntropy);
  const users = [
    `"${username}" "${decodeURIComponent(password)}"`,
    ...roles.map((role) => `"${role}" ""`),
  ];
  const files = { config: join(dir, "pgbouncer.ini"), users: join(dir, "users.txt") };
  const chosen = {
    listen_addr: "127.0.0.1",
    listen_port: listenPort,
    unix_socket_dir: "",
    auth_type: "trust",
    auth_file: files.users,
    pool_mode: mode,
    max_client_conn: 400,
    ...settings,
  };
  await writeFile(files.users, users.join("\n"));
  await writeFile(
    files.config,
    `[databases]\n* = host=${decodeURIComponent(hostname)} port=${port || 5432}\n[pgbouncer]\n${Object.entries(
      chosen,
    )
      .map(([name, value]) => `${name} = ${value}\n`)
      .join("")}`,
  );
  // It does not run as root.
  const owner = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  if (owner.uid !== undefined)
    for (const path of [dir, files.config, files.users]) await chown(path, owner.uid, owner.gid);
  const stop = await startListening(
    { program, args: ["-q", files.config], ports: [listenPort] },
    owner,
  ).catch(async (error: unknown) => {
    await remove();
    throw error;
  });
  return {
    /** Returns the URL of a database at the pooler. */
    url: (databaseUrl: string) => {
      const { username, pathname } = new URL(databaseUrl);
      return `postgres://${username}@127.0.0.1:${listenPort}${pathname}`;
    },
    stop: async () => {
      await stop();
      await remove();
    },
  };
};

/** Debian installs it where only root has its PATH. */
const program = "/usr/sbin/pgbouncer";
