import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it, onTestFinished } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { noOutcome } from "../store/export/positions.ts";
import type { PackedBlock } from "../store/export/read-envelopes.ts";
import { type PumpOptions, pumpChunks } from "./pump-chunks.ts";
import type { ExportChunk } from "./source.ts";

const chunkOf = (...hostIds: string[]): ExportChunk => ({
  queues: hostIds.map((hostId) => [{ hostId } as PackedBlock]),
  envelopes: hostIds.length,
  bytes: 1,
  commit: async () => undefined,
});
/** Two that go through different lanes. */
const hostIds = ["a", "b"];

const startPump = (some: Partial<PumpOptions>) => {
  const clock = createTestClock();
  const lease = new AbortController();
  const stopping = new AbortController();
  const pump = pumpChunks({
    source: { read: async () => null },
    deliverAll: async () => noOutcome,
    lanes: 4,
    bufferBytesMax: 10,
    clock,
    stopping: stopping.signal,
    signal: lease.signal,
    observe: { buffered: () => undefined, committed: () => undefined },
    ...some,
  });
  return { clock, lease, stopping, pump };
};

/** A backend without an answer: a delivery lasts until its signal aborts. */
const createSilentBackend = () => {
  const clock = createTestClock();
  let underWay = 0;
  return {
    deliverAll: async (_: unknown, signal: AbortSignal) => {
      underWay += 1;
      await clock.sleep(60_000, signal).finally(() => {
        underWay -= 1;
      });
      return noOutcome;
    },
    underWay: () => underWay,
  };
};

/** Reads these chunks, then does as `end` does. */
const readAll = (chunks: ExportChunk[], end: () => Promise<null> = async () => null) => ({
  read: async () => chunks.shift() ?? end(),
});

/** Collects what would end the process. */
const collectUnhandled = () => {
  const unhandled: unknown[] = [];
  const collect = (cause: unknown) => void unhandled.push(cause);
  process.on("unhandledRejection", collect);
  onTestFinished(() => void process.off("unhandledRejection", collect));
  return unhandled;
};

it("D8: a lease that ends amid deliveries ends the export of the lease, and not the process", async () => {
  const unhandled = collectUnhandled();
  const { deliverAll, underWay } = createSilentBackend();
  const { clock, lease, pump } = startPump({ source: readAll([chunkOf(...hostIds)]), deliverAll });
  await clock.advance(0);
  expect(underWay()).toBe(2);
  const lost = new Error("not renewed in time");
  lease.abort(lost);
  await expect(pump).rejects.toBe(lost);
  await clock.advance(0);
  expect(unhandled).toEqual([]);
});

it.each(["read", "commit"] as const)(
  "D8: a failed %s ends the deliveries that are under way",
  async (failing) => {
    const unhandled = collectUnhandled();
    const silent = createSilentBackend();
    const failure = new Error("write DEADLINE_EXCEEDED");
    const fail = () => Promise.reject(failure);
    const isFirst = (blocks: Iterable<PackedBlock>) =>
      [...blocks].some(({ hostId }) => hostId === "a");
    const chunks = [chunkOf("a"), chunkOf("b")];
    if (failing === "commit") for (const chunk of chunks) chunk.commit = fail;
    const { clock, pump } = startPump({
      source: readAll(chunks, failing === "read" ? fail : undefined),
      deliverAll: async (blocks, signal) =>
        failing === "commit" && isFirst(blocks) ? noOutcome : silent.deliverAll(blocks, signal),
    });
    await expect(pump).rejects.toBe(failure);
    await clock.advance(0);
    expect(silent.underWay()).toBe(0);
    expect(unhandled).toEqual([]);
  },
);

it("reads one chunk ahead of one that fills the buffer", async () => {
  const { deliverAll } = createSilentBackend();
  const chunks = Array.from({ length: 3 }, () => ({ ...chunkOf("a"), bytes: 20 }));
  const { clock, lease, pump } = startPump({ source: readAll(chunks), deliverAll });
  await clock.advance(0);
  expect(chunks).toHaveLength(1);
  lease.abort();
  await expect(pump).rejects.toThrow();
});

it("keeps no memory for chunks that are committed", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  const usedBytes = () => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const warmUp = 1_000;
  const chunks = 20_000;
  let before = 0;
  let committed = 0;
  const { stopping, pump } = startPump({
    source: {
      read: async () => {
        if (committed === warmUp) before = usedBytes();
        const commit = async () => void committed++;
        return committed < chunks ? { ...chunkOf("a"), commit } : null;
      },
    },
  });
  await expect.poll(() => committed, { interval: 1 }).toBeGreaterThanOrEqual(chunks);
  expect((usedBytes() - before) / (chunks - warmUp)).toBeLessThan(100);
  stopping.abort();
  await pump;
});
