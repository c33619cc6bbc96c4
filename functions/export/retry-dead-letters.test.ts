import { beforeEach, describe, expect, it } from "vitest";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { type TestDatabase, useTestDatabase } from "#tests/support/database.ts";
import type { ConnectedDatabase } from "../store/database/database.ts";
import {
  acquireExportLease,
  createExportPosition,
  moveExportPosition,
  noOutcome,
} from "../store/export/positions.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import { createDeadLetterLimit, type DeadLetterLimitOptions } from "./dead-letter-limit.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";
import { createPace } from "./pace.ts";
import { type RetryOptions, retryDeadLetters } from "./retry-dead-letters.ts";

let database: TestDatabase;
let connection: ConnectedDatabase;
beforeEach(async () => {
  database = await useTestDatabase();
  connection = database.connect();
});

const accepted: OtlpOutcome = { status: "accepted", rejectedItems: 0, message: "" };
const envelope = (sequence: number, kind = "log_line") => ({
  hostId: "h",
  queueId: new Uint8Array(16),
  sequence: BigInt(sequence),
  kind,
  source: "files",
  observedAt: 1_795_000_000_000_000n,
  receivedAt: 1_795_000_000_000_000n,
  attributes: { a: "b" },
  payload: new TextEncoder().encode(`line-${sequence};`),
});
const store = async (envelopes: readonly StoredEnvelope[]) => {
  await createExportPosition(connection.db, "default", "oldest");
  const { lease } = await acquireExportLease(connection.db, "default", { owner: "me" });
  if (lease === null) throw new Error("another process has the lease");
  const deadLetters = envelopes.map((each) => ({ envelope: each, reason: "HTTP 400" }));
  await moveExportPosition(connection.db, lease, {
    ...noOutcome,
    position: 1n,
    passed: 0,
    deadLetters,
  });
};
const retry = (
  answer: (lines: readonly string[]) => OtlpOutcome,
  some: Partial<RetryOptions> = {},
) =>
  retryDeadLetters({
    db: connection.db,
    name: "default",
    client: {
      send: async (_, body) =>
        answer(new TextDecoder("latin1").decode(body).match(/line-\d+/g) ?? []),
    },
    limits: { bytesMax: 1 << 20, signals: ["logs"], isAttested: true },
    pace: createPace({ bytesMax: 1 << 20, timeoutMs: 10_000 }, { monotonic: () => 0 }),
    clock: {
      now: () => 1_800_000_000_000,
      // Only waits between attempts pass: the limit of a request does not.
      sleep: (ms) => (ms === 60_000 ? new Promise(() => undefined) : Promise.resolve()),
    },
    entropy: createSeededEntropy(1),
    requestMs: 60_000,
    ...some,
  });
const leftOf = () =>
  connection.sql`select sequence::int, reason from export_dead_letter order by id`;

describe("a retry of dead letters", () => {
  it("deletes those that the backend accepts, and keeps the others with the new reason", async () => {
    await store(
      Array.from({ length: 45 }, (_, index) =>
        envelope(index + 1, index === 44 ? "otel_span" : "log_line"),
      ),
    );
    const sent: string[] = [];
    const report = await retry((lines) => {
      if (lines.includes("line-7")) return { status: "rejected", reason: "HTTP 413" };
      sent.push(...lines);
      return accepted;
    });
    expect(report).toEqual({
      accepted: 43,
      rejected: 1,
      rejectedItems: 0,
      skipped: 1,
      failure: null,
    });
    expect(sent).toEqual(
      Array.from({ length: 44 }, (_, index) => `line-${index + 1}`).filter(
        (line) => line !== "line-7",
      ),
    );
    expect(await leftOf()).toEqual([
      { sequence: 7, reason: "HTTP 413" },
      { sequence: 45, reason: "HTTP 400" },
    ]);
  });

  it("takes what the backend accepts off what it rejected of the host's hour", async () => {
    await store([envelope(1), envelope(2), envelope(3)]);
    const left = () =>
      connection.sql`select after_sequence::int, envelopes::int, items::int from export_rejection`;
    expect(await left()).toEqual([{ after_sequence: 0, envelopes: 3, items: 0 }]);
    const limits = { bytesMax: 1, signals: ["logs" as const], isAttested: true };
    await retry(
      (lines) => {
        if (lines.includes("line-1")) return { status: "rejected", reason: "HTTP 413" };
        return lines.includes("line-2")
          ? { ...accepted, rejectedItems: 4, message: "too old" }
          : accepted;
      },
      { limits },
    );
    expect(await left()).toEqual([{ after_sequence: 0, envelopes: 1, items: 4 }]);
  });

  it("sends again while the backend is unavailable, and keeps all that is left when it stays so", async () => {
    await store([envelope(1), envelope(2)]);
    let calls = 0;
    const away: OtlpOutcome = { status: "retry", afterMs: null, reason: "HTTP 503" };
    const limits = { bytesMax: 1, signals: ["logs" as const], isAttested: true };
    let expire = () => {};
    const clock = {
      now: () => 0,
      sleep: (ms: number, signal?: AbortSignal) =>
        ms === 60_000
          ? new Promise<void>((resolve) => {
              expire = resolve;
            })
          : Promise.resolve().then(() => signal?.throwIfAborted()),
    };
    const report = await retry(
      (lines) => {
        calls += 1;
        if (calls > 10) expire();
        return lines.includes("line-1") && calls > 2 ? accepted : away;
      },
      { limits, clock },
    );
    expect(report).toEqual({
      accepted: 1,
      rejected: 0,
      rejectedItems: 0,
      skipped: 0,
      failure: "HTTP 503",
    });
    expect(await leftOf()).toMatchObject([{ sequence: 2 }]);
  });
});

describe("the limit of dead letters", () => {
  const createLimit = (
    stored: Record<string, number>,
    hosts: number,
    some: Partial<DeadLetterLimitOptions> = {},
  ) => {
    let at = 0;
    return createDeadLetterLimit({
      hostMax: 3,
      max: 1_000,
      countHosts: async () => hosts,
      clock: { monotonic: () => (at += 2_000) },
      count: async () => new Map(Object.entries(stored)),
      ...some,
    });
  };

  it("stores more once stored ones have gone", async () => {
    const stored = { a: 2 };
    const limit = createLimit(stored, 1);
    const { decide } = limit;
    expect(await decide("a")).toBe("store");
    // One that is not stored yet counts, too, however often the others are counted.
    expect(await decide("a")).toBe("wait");
    stored.a = 3;
    limit.stored(["a"]);
    // It is alone: nobody else can tell whether the fault is the backend's.
    expect(await decide("a")).toBe("wait");
    stored.a = 1;
    expect([await decide("a"), await decide("a")]).toEqual(["store", "store"]);
    const { decide: blind } = createLimit({}, 0, {
      hostMax: 0,
      count: () => Promise.reject(new Error("unavailable")),
    });
    expect(await blind("a")).toBe("wait");
  });

  it("drops what one host sends beyond its share, and waits when more than 5 % of the hosts, and three, have reached theirs", async () => {
    const bad = (hosts: number) =>
      Object.fromEntries(Array.from({ length: hosts }, (_, host) => [`bad${host}`, 3]));
    expect(await createLimit(bad(1), 2).decide("bad0")).toBe("drop");
    expect(await createLimit(bad(2), 20).decide("bad0")).toBe("drop");
    expect(await createLimit(bad(2), 20).decide("good")).toBe("store");
    expect(await createLimit(bad(3), 20).decide("bad0")).toBe("wait");
    expect(await createLimit(bad(5), 100).decide("bad0")).toBe("drop");
    expect(await createLimit(bad(6), 100).decide("bad0")).toBe("wait");
    expect(await createLimit(bad(2), 2).decide("bad0")).toBe("wait");
  });

  it("fills no disk: beyond all that may be stored, a host loses its own too", async () => {
    const { decide } = createLimit({ bad: 3, worse: 2 }, 1_000, { max: 5 });
    expect(await decide("good")).toBe("drop");
  });
});
