import { type ChildProcess, execFileSync } from "node:child_process";
import { once } from "node:events";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type IngestCore, prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from "#scripts/postgres/embedded-postgres.ts";
import { startTcpProxy, type TcpProxy } from "../fakes/tcp-proxy.ts";
import { programFile } from "../support/program.ts";

let postgres: EmbeddedPostgres;
let proxy: TcpProxy;
let core: IngestCore;
let running: { port: number; process: ChildProcess };

const socketOf = (server: EmbeddedPostgres) =>
  `${decodeURIComponent(new URL(server.url()).hostname)}/.s.PGSQL.5432`;
const readiness = async (path: string) =>
  fetch(`http://127.0.0.1:${running.port}${path}`, { signal: AbortSignal.timeout(6_000) }).then(
    ({ status }) => status,
    () => 0,
  );
const untilReady = async () => {
  const startedAt = performance.now();
  for (const path of ["/readyz", "/readyz/ingest"])
    await expect.poll(() => readiness(path), { interval: 10, timeout: 30_000 }).toBe(200);
  return performance.now() - startedAt;
};
/** Kills one server process, after which the postmaster ends all others and recovers. */
const crash = async () => {
  const client = new pg.Client({ connectionString: postgres.url() });
  client.on("error", () => undefined);
  await client.connect();
  const { rows } = await client.query("select pg_backend_pid() as pid");
  process.kill(rows[0]?.pid ?? 0, "SIGKILL");
  await new Promise((resolve) => client.once("end", resolve));
};
/** The postmaster and its children. */
const signal = (name: "STOP" | "CONT") => {
  const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(postgres.pid)], {
    encoding: "utf8",
  });
  for (const pid of [String(postgres.pid), ...children.trim().split(/\s+/)])
    process.kill(Number(pid), `SIG${name}`);
};

beforeAll(async () => {
  postgres = await startEmbeddedPostgres();
  proxy = await startTcpProxy(socketOf(postgres));
  core = await prepareIngestCore(`postgres://postgres@127.0.0.1:${proxy.port}/postgres`, {
    env: { SVC_TRUST_LOOPBACK_OPS: "true" },
    program: programFile("functions/main.ts"),
  });
  running = await core.start();
  running.process.stdout?.resume();
}, 60_000);
afterAll(async () => {
  running.process.kill("SIGKILL");
  await core.remove();
  await proxy.close();
  await postgres.stop();
});

it("D1: is ready within 5 s of each immediate restart of PostgreSQL, under load", {
  timeout: 60_000,
}, async () => {
  await untilReady();
  const stop = new AbortController();
  const load = Array.from({ length: 4 }, async () => {
    while (!stop.signal.aborted) await readiness("/readyz");
  });
  for (let restart = 0; restart < 3; restart++) {
    proxy.target("/nowhere");
    await crash();
    // So long that the driver's own backoff would have grown to seconds.
    await expect.poll(() => readiness("/readyz"), { interval: 10 }).toBe(503);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    proxy.target(socketOf(postgres));
    expect(await untilReady()).toBeLessThan(5_000);
  }
  stop.abort();
  await Promise.all(load);
});

it("D8: is ready again within 15 s after every connection was black-holed", {
  timeout: 60_000,
}, async () => {
  proxy.swallowOpen();
  await expect.poll(() => readiness("/readyz"), { interval: 50 }).toBe(503);
  expect(await untilReady()).toBeLessThan(15_000);
});

it("D3: answers 503 while PostgreSQL is stopped, and exits within 10 s of SIGTERM", {
  timeout: 60_000,
}, async () => {
  await untilReady();
  signal("STOP");
  try {
    expect(await readiness("/readyz")).toBe(503);
    const enrolled = await fetch(`http://127.0.0.1:${running.port}/v1/whoami`, {
      headers: { authorization: `Bearer ${"a".repeat(20)}` },
      signal: AbortSignal.timeout(8_000),
    });
    expect(enrolled.status).toBe(401);
    const startedAt = performance.now();
    running.process.kill("SIGTERM");
    await once(running.process, "exit");
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    expect(running.process.exitCode).toBe(0);
  } finally {
    signal("CONT");
  }
});
