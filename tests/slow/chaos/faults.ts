import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { connect as connectHttp2, constants } from "node:http2";
import { connect as connectTcp } from "node:net";
import type { Duplex } from "node:stream";
import { Worker } from "node:worker_threads";
import { systemClock } from "#kit/clock.ts";
import { clockFaults } from "./clock-faults.ts";
import { exportFaults } from "./export-faults.ts";
import { type Fault, type Scene, seconds } from "./fault.ts";
import { fileFaults } from "./file-faults.ts";
import type { KilledProgram } from "./killed-program.ts";
import { restoreFaults } from "./restore-faults.ts";
import { serverFaults } from "./server-faults.ts";

const signalPostgres = (postmaster: number, signal: "SIGSTOP" | "SIGCONT") => {
  const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(postmaster)], {
    encoding: "utf8",
  });
  for (const pid of [postmaster, ...children.trim().split(/\s+/).map(Number)]) {
    try {
      process.kill(pid, signal);
    } catch {
      // It ended in between.
    }
  }
};

/**
 * Stops a backend of the committer that holds no cursor's lock, and returns its pid. One that holds locks keeps the queues of its batch
 * waiting until it continues: no client can take a lock from a stopped process.
 */
const stopBackend = async (sql: Scene["sql"]) => {
  for (let attempt = 0; attempt < 100; attempt++) {
    const [backend] = await sql`select pid from pg_stat_activity
      where application_name = 'svc-server ingest' order by state <> 'idle', random() limit 1`;
    if (backend === undefined) continue;
    process.kill(backend.pid, "SIGSTOP");
    const locks =
      await sql`select 1 from pg_locks where pid = ${backend.pid} and relation = 'ingest_cursor'::regclass`;
    if (locks.length === 0) return backend.pid;
    process.kill(backend.pid, "SIGCONT");
    await systemClock.sleep(7);
  }
  throw new Error("the committer has no backend without locks");
};

const resets = 20_000;

/** Opens and resets streams as fast as it can, on a new connection whenever core closes one, in a thread of its own. */
const resetScript = `
  const { connect } = require("node:http2");
  const { parentPort, workerData } = require("node:worker_threads");
  let streams = 0;
  let sessions = 0;
  const open = () => {
    if (streams >= workerData.resets || sessions++ >= 100) return parentPort.postMessage({ streams, sessions });
    const session = connect(workerData.url, workerData.tls);
    let isClosed = false;
    const next = () => {
      if (isClosed) return;
      isClosed = true;
      session.destroy();
      setTimeout(open, 20);
    };
    for (const event of ["error", "goaway", "close"]) session.once(event, next);
    const burst = () => {
      for (let index = 0; index < 500 && !isClosed && !session.destroyed && streams < workerData.resets; index++, streams++) {
        const stream = session.request({ ":method": "POST", ":path": "/svc.ingest.v1.IngestService/Forward", "content-type": "application/grpc" });
        stream.on("error", () => undefined);
        stream.close(8);
      }
      if (streams >= workerData.resets) next();
      else if (!isClosed && !session.destroyed) session.ping((error) => (error ? next() : burst()));
    };
    session.once("connect", burst);
  };
  open();
`;

const chosen = (cores: Scene["cores"], draw: number) =>
  cores[Math.floor(draw * cores.length)] as KilledProgram;

const unfinishedHandshakes = 300;
const slowBodies = 100;
/** Announces a gRPC message of 64 KiB: core needs no enrollment to read it, as it does to read a management request. */
const largePrefix = Buffer.of(0, 0, 1, 0, 0);
/** Core waits longer for the rest of a body, so a fault that ends before has not taken place. */
const slowBodyMsMin = 3_000;

/** Every fault by its name. */
export const faults: Readonly<Record<string, Fault>> = {
  "restart PostgreSQL (immediate)": {
    id: "D1",
    touches: ["postgres"],
    recoveryMs: { p50: 1_000, max: 5_000 },
    inject: ({ postgres }) => postgres.restart(),
  },
  "stop PostgreSQL (SIGSTOP)": {
    id: "D3",
    touches: ["postgres"],
    recoveryMs: { max: 5_000 },
    inject: async ({ postgres }, draw) => {
      signalPostgres(postgres.pid, "SIGSTOP");
      await systemClock.sleep(seconds(draw, 1, 8));
      signalPostgres(postgres.pid, "SIGCONT");
    },
  },
  "stop a committer's backend (SIGSTOP)": {
    id: "D3",
    touches: ["postgres"],
    recoveryMs: { max: 5_000 },
    pause: { of: "any", msMax: 10_000 },
    inject: async ({ sql }, draw) => {
      const pid = await stopBackend(sql);
      await systemClock.sleep(seconds(draw, 3, 15));
      process.kill(pid, "SIGCONT");
    },
  },
  "lock a queue's cursor": {
    id: "D3",
    touches: ["postgres"],
    recoveryMs: { max: 5_000 },
    pause: { of: "each", msMax: 10_000 },
    concerned: ({ hostIds }, draw) => Math.floor(draw * hostIds.length),
    inject: async ({ sql, hostIds }, draw) => {
      const hostId = hostIds[Math.floor(draw * hostIds.length)] ?? "";
      await sql.begin(async (transaction) => {
        // This session has core's limit of 10 s.
        await transaction`set local idle_in_transaction_session_timeout = 0`;
        await transaction`select 1 from ingest_cursor where host_id = ${hostId} for update`;
        await systemClock.sleep(seconds((draw * hostIds.length) % 1, 3, 15));
      });
    },
  },
  "black-hole the database connections": {
    id: "D8",
    touches: ["postgres"],
    recoveryMs: { max: 15_000 },
    inject: async ({ proxy }) => {
      proxy.swallowOpen();
      // Frames in flight are still acknowledged.
      await systemClock.sleep(500);
    },
  },
  "black-hole the database": {
    id: "D8",
    touches: ["postgres"],
    recoveryMs: { max: 15_000 },
    inject: async ({ proxy }, draw) => {
      proxy.swallow(true);
      await systemClock.sleep(seconds(draw, 2, 10));
      // A connection that lost bytes stays lost.
      proxy.swallowOpen();
      proxy.swallow(false);
    },
  },
  "kill core (SIGKILL)": {
    id: "G5",
    touches: ["core"],
    recoveryMs: { max: 15_000 },
    inject: ({ cores }, draw) => chosen(cores, draw).restart(),
  },
  "kill all cores (SIGKILL)": {
    id: "G5",
    touches: ["core"],
    recoveryMs: { max: 15_000 },
    inject: async ({ cores }) => void (await Promise.all(cores.map((core) => core.restart()))),
  },
  "stop core (SIGSTOP)": {
    id: "G5",
    touches: ["core"],
    recoveryMs: { max: 15_000 },
    inject: async ({ cores }, draw) => {
      const pid = chosen(cores, draw).pid();
      process.kill(pid, "SIGSTOP");
      await systemClock.sleep(seconds((draw * cores.length) % 1, 2, 12));
      process.kill(pid, "SIGCONT");
    },
  },
  "kill the collector (SIGKILL)": {
    id: "Q1",
    touches: ["collector"],
    recoveryMs: { max: 5_000 },
    inject: ({ collector }) => collector.restart(),
  },
  ...restoreFaults,
  ...serverFaults,
  ...exportFaults,
  ...clockFaults,
  ...fileFaults,
  "leave TLS handshakes unfinished": {
    id: "G2",
    touches: ["core"],
    recoveryMs: { max: 5_000 },
    pause: { of: "each", msMax: 5_000 },
    inject: async ({ ingestPort }) => {
      const sockets = Array.from({ length: unfinishedHandshakes }, () =>
        connectTcp(ingestPort, "127.0.0.1"),
      );
      await withinMs(
        15_000,
        "core closes an unfinished handshake",
        Promise.all(sockets.map(closed)),
        () => {
          for (const socket of sockets) socket.destroy();
        },
      );
    },
  },
  "reset HTTP/2 streams": {
    id: "G2",
    touches: ["core"],
    recoveryMs: { max: 5_000 },
    pause: { of: "each", msMax: 5_000 },
    inject: async ({ ingestPort, strangers }) => {
      const workerData = { url: `https://localhost:${ingestPort}`, tls: strangers.resets, resets };
      const worker = new Worker(resetScript, { eval: true, workerData });
      await withinMs(
        60_000,
        "the resets end",
        once(worker, "message"),
        () => void worker.terminate(),
      );
    },
  },
  "send bodies slowly": {
    id: "G2",
    touches: ["core"],
    recoveryMs: { max: 5_000 },
    pause: { of: "each", msMax: 5_000 },
    inject: async ({ ingestPort, strangers }) => {
      const startedAt = performance.now();
      const session = connectHttp2(`https://localhost:${ingestPort}`, strangers.slow);
      session.on("error", () => undefined);
      await once(session, "connect");
      const streams = Array.from({ length: slowBodies }, () => {
        const path = "/svc.ingest.v1.IngestService/Forward";
        const stream = session.request({
          ":method": "POST",
          ":path": path,
          "content-type": "application/grpc",
        });
        stream.on("error", () => undefined).resume();
        stream.write(largePrefix);
        return stream;
      });
      const drip = setInterval(() => {
        for (const stream of streams) if (!stream.destroyed) stream.write(" ");
      }, 500);
      const ended = Promise.all(streams.map(closed));
      await withinMs(20_000, "core ends a slow body", ended, () => {
        clearInterval(drip);
        session.destroy(undefined, constants.NGHTTP2_NO_ERROR);
      });
      if (performance.now() - startedAt < slowBodyMsMin)
        throw new Error("core refused every slow body at once");
    },
  },
};

const closed = (stream: Duplex): Promise<void> =>
  new Promise((resolve) => {
    stream.on("error", () => undefined);
    if (stream.destroyed) resolve();
    else stream.once("close", () => resolve());
  });

/** Waits for `task` at most `ms`, then runs `cleanup`; throws when it was too late. */
const withinMs = async (ms: number, what: string, task: Promise<unknown>, cleanup: () => void) => {
  const late = new AbortController();
  const isLate = systemClock.sleep(ms, late.signal).then(
    () => true,
    () => false,
  );
  const result = await Promise.race([task.then(() => false), isLate]);
  late.abort();
  cleanup();
  if (result) throw new Error(`${what}: not within ${ms / 1000} s`);
};
