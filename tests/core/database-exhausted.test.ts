import { execFileSync } from "node:child_process";
import { chownSync } from "node:fs";
import { appendFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import pg from "pg";
import { afterEach, describe, expect, it } from "vitest";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { frame, newQueue, testHost } from "../support/frames.ts";
import { connectForeign, type ForeignClient, submit } from "../support/grpc-client.ts";
import { programFile } from "../support/program.ts";

/** What a test has started, ended in the opposite order. */
let cleanup = new AsyncDisposableStack();
afterEach(async () => {
  await cleanup.disposeAsync();
  cleanup = new AsyncDisposableStack();
});

interface RunningCore {
  port: number;
  client: ForeignClient;
}

const startServer = async (settings: Readonly<Record<string, string>> = {}) => {
  const server = await startEmbeddedPostgres({ settings });
  cleanup.defer(() => server.stop("immediate"));
  return server;
};

const startCore = async (url: string) => {
  const core = await prepareIngestCore(url, {
    env: { SVC_TRUST_LOOPBACK_OPS: "true" },
    program: programFile("functions/main.ts"),
  });
  cleanup.defer(() => core.remove());
  const running = await core.start();
  cleanup.defer(() => void running.process.kill("SIGKILL"));
  running.process.stdout?.resume();
  const client = connectForeign(
    { port: running.ingestPort, caPem: core.caPem },
    {
      ...(await core.client(testHost)),
      der: new Uint8Array(),
    },
  );
  cleanup.defer(() => client.close());
  await untilReady(running.port);
  return { port: running.port, client };
};

const untilReady = async (port: number) => {
  for (const path of ["/readyz", "/readyz/ingest"])
    await expect
      .poll(
        () => fetch(`http://127.0.0.1:${port}${path}`).then(({ status: answered }) => answered),
        {
          interval: 10,
          timeout: 5_000,
        },
      )
      .toBe(200);
};

/** Enrolls with a token that is none, which core counts in the database: 401 if it can. Returns status and code. */
const enroll = async ({ port }: RunningCore) => {
  const response = await fetch(`http://127.0.0.1:${port}/v1/collector/enroll`, {
    method: "POST",
    headers: { authorization: "Bearer nonsense", "content-type": "application/json" },
    body: "{}",
    signal: AbortSignal.timeout(8_000),
  });
  return `${response.status} ${((await response.json()) as { code: string }).code}`;
};

const refused = { code: status.UNAVAILABLE, reason: "database_unavailable" };
const unavailable = "503 database_unavailable";
const unknownToken = "401 token_invalid";

const queryOnce = async (url: string, ...statements: string[]) => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
};

/** Mounts a file system of 64 MB; undefined where this process may not. */
const mountSmall = async () => {
  const { path: dir } = cleanup.use(await openTemporaryFolder("small"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", dir], { stdio: "ignore" });
  } catch {
    return undefined;
  }
  cleanup.defer(() => void execFileSync("umount", ["-l", dir]));
  return dir;
};

describe("core, when its database has nothing left", () => {
  it("D5: answers 503 and UNAVAILABLE while every connection is taken, and is ready within 5 s after", {
    timeout: 60_000,
  }, async () => {
    const server = await startServer({ max_connections: "40" });
    const core = await startCore(server.url());
    const queue = newQueue();
    expect((await submit(core.client, frame(queue, 1, 2))).error).toBeUndefined();
    expect(await enroll(core)).toBe(unknownToken);
    const taken: pg.Client[] = [];
    const take = async () => {
      const client = new pg.Client({ connectionString: server.url(), application_name: "other" });
      client.on("error", () => undefined);
      await client.connect();
      taken.push(client);
    };
    const isFull = async () => {
      for (;;) {
        const [first] = taken;
        await first?.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'svc-server%'",
        );
        try {
          await take();
        } catch {
          const result = await first?.query(
            "select 1 from pg_stat_activity where application_name like 'svc-server%'",
          );
          return result?.rowCount === 0;
        }
      }
    };
    await take();
    await expect.poll(isFull, { timeout: 10_000 }).toBe(true);
    expect((await submit(core.client, frame(queue, 3, 4))).error).toMatchObject(refused);
    expect(await enroll(core)).toBe(unavailable);
    await Promise.all(taken.map((client) => client.end()));
    await untilReady(core.port);
    expect(await submit(core.client, frame(queue, 3, 4))).toMatchObject({
      messages: [{ ack: { acked_through: "4" } }],
    });
    expect(await enroll(core)).toBe(unknownToken);
  });

  it("D5: answers 503 and UNAVAILABLE while the disk is full, and stores what is resent once it is not", {
    timeout: 60_000,
  }, async ({ skip }) => {
    const disk = await mountSmall();
    if (disk === undefined) return skip("this process may not mount a file system");
    // The server's account, as in embedded-postgres.ts.
    if (process.getuid?.() === 0) chownSync(disk, 65534, 65534);
    const server = await startServer();
    const location = `create tablespace small location '${disk}'`;
    await queryOnce(server.url(), location, "create database core tablespace small");
    const core = await startCore(server.url("core"));
    const queue = newQueue();
    expect((await submit(core.client, frame(queue, 1, 2))).error).toBeUndefined();
    const ballast = join(disk, "ballast");
    await expect(
      (async () => {
        for (;;) await appendFile(ballast, Buffer.alloc(4096));
      })(),
    ).rejects.toMatchObject({ code: "ENOSPC" });

    const [envelope] = frame(queue, 3, 3).envelopes;
    const payload = Buffer.from(
      Array.from({ length: 20 }, () => [...crypto.getRandomValues(new Uint8Array(50_000))]).flat(),
    );
    const large = { ...frame(queue, 3, 3), envelopes: [{ ...envelope, payload }] };
    for (let attempt = 0; attempt < 3; attempt++)
      expect((await submit(core.client, large)).error).toMatchObject(refused);
    expect(await enroll(core)).toBe(unavailable);

    await rm(ballast);
    await untilReady(core.port);
    expect((await submit(core.client, large)).messages).toMatchObject([
      { ack: { acked_through: "3" } },
    ]);
    expect(await enroll(core)).toBe(unknownToken);
  });
});
