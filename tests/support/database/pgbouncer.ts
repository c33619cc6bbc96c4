import { spawn } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import { findPorts, isListening } from "#scripts/ports.ts";
import { canRun, installPackage } from "../install-package.ts";

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
  const dir = await mkdtemp(join(tmpdir(), "svc-pgbouncer-"));
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
  const child = spawn(program, ["-q", files.config], {
    stdio: ["ignore", "ignore", "pipe"],
    ...owner,
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    stderr += chunk;
  });
  const exited = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
    await rm(dir, { recursive: true, force: true });
  };
  const dead = new AbortController();
  void exited.then(() => dead.abort(new Error(`pgbouncer ended: ${stderr}`)));
  await waitUntil(
    {
      what: "pgbouncer listens",
      clock: systemClock,
      signal: dead.signal,
      everyMs: 10,
      timeoutMs: 60_000,
    },
    async () => (await isListening(`127.0.0.1:${listenPort}`)) || undefined,
  ).catch(async (error) => {
    await stop();
    throw error;
  });
  return {
    /** Returns the URL of a database at the pooler. */
    url: (databaseUrl: string) => {
      const { username, pathname } = new URL(databaseUrl);
      return `postgres://${username}@127.0.0.1:${listenPort}${pathname}`;
    },
    stop,
  };
};

/** Debian installs it where only root has its PATH. */
const program = "/usr/sbin/pgbouncer";
