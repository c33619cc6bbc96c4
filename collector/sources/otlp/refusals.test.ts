/* What a sender was refused is in the accounts of the queue, by the UTC hour, the kind and the reason. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { gzipSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it, type TestContext } from "vitest";
import type { QueueOptions } from "#collector/queue/queue.ts";
import { hourMs, systemClock } from "#kit/clock.ts";
import { type SourceRefusal, sourceRefusals } from "#proto/completeness/account.ts";
import { StatusSchema } from "#proto/gen/google/rpc/status_pb.js";
import { ExportTraceServiceResponseSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { startTestOtlp, traceRequest } from "#tests/collector/support/otlp.ts";
import { closeAccounts, refusalsOf } from "#tests/collector/support/queue-accounts.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { openTestQueue, testRecord } from "#tests/support/queue.ts";
import { createOtlpSource } from "./otlp-source.ts";

const limits = {
  roomTimeoutMs: 1,
  envelopeBytesMax: 1_000,
  itemBytesMax: 4_000,
  bodyBytesMax: 20_000,
};
const small = traceRequest(["a"]);
const large = traceRequest(["a", "x".repeat(5_000), "b", "y".repeat(5_000)]);
const json = { "content-type": "application/json" };
const plain = { "content-type": "text/plain" };
const gzip = { "content-encoding": "gzip" };
const brotli = { "content-encoding": "br" };
const bomb = gzipSync(Buffer.alloc(30_000));

describe("a request that is refused", () => {
  const start = async (
    { onTestFinished }: Pick<TestContext, "onTestFinished">,
    queue: Partial<QueueOptions> = {},
  ) => {
    const otlp = await startTestOtlp({ limits, queue });
    onTestFinished(otlp.close);
    return otlp;
  };

  it.for<
    [
      string,
      string,
      Uint8Array | string,
      Record<string, string>,
      number,
      ...[number, string, number][],
    ]
  >([
    ["that is no protobuf", "/v1/traces", "{secret", {}, 400, [3, "otel_span", 1]],
    ["that is no JSON", "/v1/logs", "{secret", json, 400, [3, "otel_log", 1]],
    ["of another content type", "/v1/metrics", "{secret", plain, 415, [3, "otel_metric", 1]],
    ["of another encoding", "/v1/traces", small, brotli, 415, [3, "otel_span", 1]],
    ["that is no gzip", "/v1/traces", "{secret", gzip, 400, [3, "otel_span", 1]],
    ["that unpacks too large", "/v1/traces", bomb, gzip, 413, [2, "otel_span", 1]],
    ["that is too large", "/v1/traces", Buffer.alloc(30_000), {}, 413, [2, "otel_span", 1]],
    ["with items that are too large", "/v1/traces", large, {}, 200, [2, "otel_span", 2]],
    ["to an unknown path", "/v1/spans", small, {}, 404],
    ["of a web page", "/v1/traces", small, { origin: "http://localhost" }, 403],
  ])(
    "over HTTP, %s, is answered in its encoding and counted by its kind and reason",
    async ([, path, body, headers, status, ...counted], context) => {
      const otlp = await start(context);
      const bytes = typeof body === "string" ? body : Uint8Array.from(body);
      const response = await otlp.post(path, bytes, headers);
      expect(response.status).toBe(status);
      if (status !== 200) {
        const isJson = response.headers.get("content-type") === "application/json";
        const answer = isJson
          ? await response.json()
          : fromBinary(StatusSchema, await response.bytes());
        expect(answer.message).toMatch(/^(?!.*secret)[a-z].{5,}/);
      }
      expect((await otlp.post("/v1/traces", small)).status).toBe(200);
      expect(refusalsOf(closeAccounts(otlp.queue))).toEqual(
        counted.map(([reason, kind, records]) => [reason, kind, "otlp", records]),
      );
    },
  );

  it.for<[string, Uint8Array, number, number]>([
    ["no message of the signal", Buffer.from("no"), 3, 3],
    ["too large a message", Buffer.alloc(30_000), 8, 2],
    ["an item that is too large, alone", traceRequest(["x".repeat(5_000)]), 3, 2],
  ])("over gRPC, with %s, is counted", async ([, message, code, reason], context) => {
    const otlp = await start(context);
    await expect(otlp.exportByGrpc(message)).rejects.toMatchObject({ code });
    expect(refusalsOf(closeAccounts(otlp.queue))).toEqual([[reason, "otel_span", "otlp", 1]]);
  });

  it("for a full queue, is counted each time that its sender is asked to retry", async (context) => {
    const otlp = await start(context, { maxDiskUsageBytes: 10_000 });
    await otlp.queue.append([testRecord("in the way", 9_800)]);
    for (let attempt = 0; attempt < 3; attempt++)
      expect((await otlp.post("/v1/traces", small)).status).toBe(503);
    await expect(otlp.exportByGrpc(small)).rejects.toMatchObject({ code: 14 });
    expect(refusalsOf(closeAccounts(otlp.queue))).toEqual([[4, "otel_span", "otlp", 4]]);
  });

  it("by a full queue that drops the newest, is counted as dropped and not as to be retried", async (context) => {
    const otlp = await start(context, { maxDiskUsageBytes: 10_000, dropNewestOnFull: true });
    await otlp.queue.append([testRecord("in the way", 9_800)]);
    expect((await otlp.post("/v1/traces", small)).status).toBe(200);
    expect(refusalsOf(closeAccounts(otlp.queue))).toEqual([[1, "otel_span", "otlp", 1]]);
  });
});

/** Returns what a sender was refused, by the answer; two of `large` are too large in any case. */
const refusalsIn = async (response: Response): Promise<[SourceRefusal, number][]> => {
  if (response.status === 400) return [["malformed", 1]];
  if (response.status === 413) return [["too_large", 1]];
  if (response.status === 503) return [["retry", 1]];
  expect(response.status).toBe(200);
  const { partialSuccess } = fromBinary(ExportTraceServiceResponseSchema, await response.bytes());
  const rejected = Number(partialSuccess?.rejectedSpans ?? 0);
  if (rejected === 0) return [];
  if (partialSuccess?.errorMessage.startsWith("dropped") !== true) return [["too_large", rejected]];
  return rejected === 1
    ? [["queue_full", 1]]
    : [
        ["queue_full", rejected - 2],
        ["too_large", 2],
      ];
};

const bodies = { small, large, malformed: Buffer.from("no"), "too large": Buffer.alloc(30_000) };
const damage =
  "DELETE FROM account; DELETE FROM account_period; UPDATE block SET last_sequence = last_sequence | (1 << 62)";
const action = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom("small", "large", "malformed", "too large") },
  { weight: 4, arbitrary: fc.constantFrom("fill", "empty", "minute", "hour") },
  { weight: 2, arbitrary: fc.constantFrom("stop", "kill", "damage") },
);

it("states what senders were refused in each hour, after a stop and damage; after a kill at least what was on disk", async () => {
  const property = fc.asyncProperty(
    fc.array(action, { minLength: 5, maxLength: 40 }),
    fc.boolean(),
    async (actions, dropNewestOnFull) => {
      const root = mkdtempSync(join(tmpdir(), "refusals-"));
      const clock = createTestClock();
      let opened = 0;
      let dir = join(root, "0");
      const start = async () => {
        const entropy = createSeededEntropy(++opened);
        const queue = openTestQueue(dir, {
          clock,
          entropy,
          maxDiskUsageBytes: 20_000,
          dropNewestOnFull,
        });
        const source = createOtlpSource(
          { http: { listen: "127.0.0.1:0" } },
          {
            append: queue.append,
            refused: queue.accounts.refused,
            clock: systemClock,
            log: createTestLog(),
          },
          limits,
        );
        await source.start();
        // As the collector does.
        queue.accounts.observe();
        return { queue, source };
      };
      const stop = async ({ queue, source }: Awaited<ReturnType<typeof start>>) => {
        await source.stop();
        await queue.close();
      };
      /** By hour and reason: what senders saw, and what of it was on disk whatever came. */
      const seen = new Map<string, number>();
      const kept = new Map<string, number>();
      const add = (to: Map<string, number>, key: string, records: number) =>
        to.set(key, (to.get(key) ?? 0) + records);
      let unsaved: [string, number][] = [];
      const save = () => {
        for (const [key, records] of unsaved.splice(0)) add(kept, key, records);
      };
      let kills = 0;
      let running = await start();
      await running.queue.append([testRecord("in the way")]);
      const act = async (name: (typeof actions)[number]): Promise<void> => {
        const { queue, source } = running;
        switch (name) {
          case "fill":
            await queue
              .append([testRecord("full", 19_600)], { signal: AbortSignal.abort() })
              .catch(() => undefined);
            return;
          case "empty":
            return queue.ack(queue.lastSequence - 1);
          case "minute":
          case "hour":
            await clock.advance(name === "hour" ? hourMs - (clock.now() % hourMs) : 60_000);
            queue.accounts.observe();
            return save();
          case "stop":
            await stop(running);
            running = await start();
            return save();
          case "kill": {
            kills += 1;
            unsaved = [];
            const killed = dir;
            dir = join(root, String(opened));
            cpSync(killed, dir, { recursive: true });
            rmSync(join(dir, "queue.lock"), { force: true });
            await stop(running);
            running = await start();
            return;
          }
          case "damage": {
            const database = new DatabaseSync(join(dir, "queue.db"));
            database.exec(damage);
            database.close();
            queue.read(0, { maxRecords: 1, maxBytes: 1 });
            return new Promise((resolve) => setImmediate(resolve));
          }
          default: {
            const headers = { "content-type": "application/x-protobuf" };
            const body = Uint8Array.from(bodies[name]);
            const url = `http://${source.addresses.http}/v1/traces`;
            for (const [reason, records] of await refusalsIn(
              await fetch(url, { method: "POST", headers, body }),
            )) {
              const key = `${Math.floor(clock.now() / hourMs)} ${reason}`;
              add(seen, key, records);
              unsaved.push([key, records]);
            }
          }
        }
      };
      try {
        for (const one of actions) await act(one);
        save();
        const accounts = closeAccounts(running.queue);
        const stated = new Map<string, number>();
        for (const account of accounts)
          for (const [reason, kind, , records] of refusalsOf([account]))
            if (kind === "otel_span")
              add(
                stated,
                `${Math.floor(Number(account.fromMs) / hourMs)} ${sourceRefusals[reason - 1]}`,
                records,
              );
        if (kills === 0) expect(stated).toEqual(seen);
        for (const [key, records] of stated)
          expect(records).toBeLessThanOrEqual(seen.get(key) ?? 0);
        for (const [key, records] of kept) expect(stated.get(key)).toBeGreaterThanOrEqual(records);
        expect(accounts.filter(({ atLeast }) => atLeast)).toHaveLength(kills);
      } finally {
        await stop(running);
        rmSync(root, { recursive: true });
      }
    },
  );
  await fc.assert(property, { numRuns: runsOf(20) });
});
