import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type PoolMode, startPgBouncer } from "#tests/support/database/pgbouncer.ts";

const core = fileURLToPath(new URL("../../../functions/main.ts", import.meta.url));

/** Cores that serve as one, and how they reach the database. */
export interface Replicas {
  cores: number;
  /** With a mode, each connection that may goes through a PgBouncer of theirs; the others go to PostgreSQL, as docs/database.md says. */
  pooler: PoolMode | null;
}

/**
 * Is `svc-server` to whoever started it: serves with several cores behind a balancer that has the ports of the environment, logs `ready`
 * once when all are, stops them at SIGTERM, and dies with all of them at SIGKILL. Ends with the exit code of the first that ends.
 */
export const serveReplicas = async ({ cores, pooler }: Replicas): Promise<void> => {
  const { SVC_DATABASE_URL_FILE: urlFile, ...given } = process.env;
  const databaseUrl = urlFile
    ? readFileSync(urlFile, "utf8").trim()
    : (given.SVC_DATABASE_URL ?? "");
  const pgbouncer =
    pooler &&
    (await startPgBouncer(databaseUrl, { mode: pooler, settings: { default_pool_size: 60 } }));
  const pooled = pgbouncer
    ? {
        SVC_DATABASE_URL: pgbouncer.url(databaseUrl),
        SVC_DATABASE_SESSION_URL: process.env.SVC_DATABASE_SESSION_URL ?? databaseUrl,
      }
    : { SVC_DATABASE_URL: databaseUrl };
  const ingest = process.env.SVC_INGEST_GRPC_ADDR && { SVC_INGEST_GRPC_ADDR: "127.0.0.1:0" };
  const env = { ...given, ...pooled, ...ingest, PORT: "0" };
  const children = Array.from({ length: cores }, () => startCore(env));
  const ended = Promise.race(children.map(async (child) => (await once(child, "close"))[0]));
  const balancers: Balancer[] = [];
  const serve = async () => {
    const ready = await Promise.all(children.map(readLog));
    const listen = async (name: string, port: string | undefined) => {
      const targets = ready.map((record) => Number(record[name]));
      const balancer = await balance(targets, Number(port ?? 0));
      balancers.push(balancer);
      return balancer.port;
    };
    const http = await listen("port", process.env.PORT);
    const ingest =
      ready[0]?.ingest_port &&
      (await listen("ingest_port", process.env.SVC_INGEST_GRPC_ADDR?.split(":").at(-1)));
    process.stdout.write(
      `${JSON.stringify({ ...ready[0], port: http, ingest_port: ingest || null })}\n`,
    );
  };
  const served = serve();
  // Only once all serve: a signal kills a core that does not handle signals yet; nor does it handle a second one.
  let isStopping = false;
  const stop = () => {
    if (!isStopping) for (const child of children) child.kill("SIGTERM");
    isStopping = true;
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => void served.then(stop));
  process.on("SIGHUP", () => void served.then(() => children.map((child) => child.kill("SIGHUP"))));
  const code = await Promise.race([ended, served.then(() => ended)]);
  stop();
  await Promise.all(
    children.map((child) => child.exitCode ?? child.signalCode ?? once(child, "close")),
  );
  // What the cores sent last may still be on its way to clients.
  await Promise.race([Promise.all(balancers.map(({ drained }) => drained())), sleep(drainMs)]);
  await pgbouncer?.stop();
  process.exit(code ?? 1);
};

/** The kernel kills it when this process ends, whatever ended it. */
const startCore = (env: NodeJS.ProcessEnv): ChildProcess =>
  spawn("setpriv", ["--pdeathsig", "KILL", process.execPath, core], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });

/** Writes the lines of a core's log to ours, but not `ready`: resolves with that. */
const readLog = (child: ChildProcess): Promise<Record<string, unknown>> =>
  new Promise((resolve) => {
    if (child.stdout === null) throw new Error("the core has no stdout");
    createInterface(child.stdout).on("line", (line) => {
      const record = JSON.parse(line);
      if (record.msg === "ready") resolve(record);
      else process.stdout.write(`${line}\n`);
    });
  });

const drainMs = 2000;

/** A balancer that listens on `port`. `drained` resolves once it has no connection left; it takes no more. */
type Balancer = Awaited<ReturnType<typeof balance>>;

/** Gives each connection to the next of the ports on loopback. */
const balance = async (targets: readonly number[], port: number) => {
  let connections = 0;
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const target = connect({
      host: "127.0.0.1",
      port: targets[connections++ % targets.length] ?? 0,
      allowHalfOpen: true,
      noDelay: true,
    });
    client.pipe(target).pipe(client);
    client.on("error", () => target.resetAndDestroy());
    target.on("error", () => client.resetAndDestroy());
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the balancer has no port");
  return { port: address.port, drained: () => once(server.close(), "close") };
};
