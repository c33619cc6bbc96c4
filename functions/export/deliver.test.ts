import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { expect, it } from "vitest";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { noOutcome } from "../store/export/positions.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import { type DeliveryOptions, deliver, type PartialRejection } from "./create-delivery.ts";
import type { ExportRequest } from "./cut-requests.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";
import { createPace } from "./pace.ts";

const envelopes = Array.from({ length: 9 }, (_, index) => ({
  hostId: "h",
  queueId: new Uint8Array(16),
  sequence: BigInt(index + 1),
  kind: "log_line",
  observedAt: null,
  receivedAt: 0n,
  source: "",
  attributes: {},
  payload: new TextEncoder().encode(`line-${index + 1};`),
}));
const linesIn = (body: Uint8Array) =>
  new TextDecoder("latin1").decode(body).match(/line-\d+/g) ?? [];

const createDelivery = (
  answer: (lines: string[], call: number, timeoutMs: number | undefined) => OtlpOutcome,
  some: Partial<DeliveryOptions> = {},
) => {
  const waits: number[] = [];
  const accepted: string[] = [];
  const states: (string | null)[] = [];
  const partial: PartialRejection[] = [];
  let calls = 0;
  const options: DeliveryOptions = {
    client: {
      send: async (_, body, timeoutMs) => {
        const lines = linesIn(body);
        const outcome = answer(lines, ++calls, timeoutMs);
        if (outcome.status === "accepted") accepted.push(...lines);
        return outcome;
      },
    },
    clock: { sleep: async (ms) => void waits.push(ms) },
    entropy: createSeededEntropy(),
    observe: {
      request: () => undefined,
      state: (reason) => void states.push(reason),
      partial: (rejected) => void partial.push(rejected),
    },
    pace: createPace({ bytesMax: 1 << 20, timeoutMs: 10_000 }, { monotonic: () => 0 }),
    isAttested: true,
    decideDeadLetter: async () => "store",
    signal: new AbortController().signal,
    ...some,
  };
  const run = (some: Partial<ExportRequest> = {}) =>
    deliver({ signal: "logs", envelopes, ...some }, options);
  return { run, waits, accepted, states, partial };
};
const accepted: OtlpOutcome = { status: "accepted", rejectedItems: 0, message: "" };
const rejected: OtlpOutcome = { status: "rejected", reason: "HTTP 400 malformed" };
const all = envelopes.map(({ sequence }) => `line-${sequence}`);

it("sends again until the backend accepts, after as long as it says", async () => {
  const {
    run,
    waits,
    accepted: got,
    states,
  } = createDelivery((_, call) =>
    call < 3
      ? { status: "retry", afterMs: call === 1 ? 7_000 : null, reason: "HTTP 503" }
      : accepted,
  );
  expect(await run()).toEqual({
    ...noOutcome,
    exported: 9,
  });
  expect(got).toEqual(all);
  expect(waits[0]).toBeGreaterThanOrEqual(7_000);
  expect(waits[1]).toBeLessThan(1_000);
  expect(states).toEqual(["HTTP 503", "HTTP 503", null]);
});

it("finds the envelopes that a backend rejects, and delivers the others in their order", async () => {
  const isBad = (line: string) => line === "line-3" || line === "line-8";
  const {
    run,
    accepted: got,
    waits,
  } = createDelivery((lines) => (lines.some(isBad) ? rejected : accepted));
  const { exported, deadLetters } = await run();
  expect(exported).toBe(7);
  expect(got).toEqual(all.filter((line) => !isBad(line)));
  expect(deadLetters.map(({ envelope, reason }) => [envelope.sequence, reason])).toEqual([
    [3n, "HTTP 400 malformed"],
    [8n, "HTTP 400 malformed"],
  ]);
  expect(waits).toEqual([]);
});

it("keeps everything while the backend rejects the sender", async () => {
  const {
    run,
    waits,
    accepted: got,
  } = createDelivery((_, call) =>
    call < 20 ? { status: "refused", reason: "HTTP 401" } : accepted,
  );
  expect(await run()).toMatchObject({ exported: 9, deadLetters: [] });
  expect(got).toEqual(all);
  expect(Math.max(...waits)).toBeLessThanOrEqual(60_000);
  expect(Math.max(...waits)).toBeGreaterThan(20_000);
});

it("waits instead of making more dead letters than it may", async () => {
  let letters = 0;
  let calls = 0;
  const { run, states } = createDelivery(() => (++calls < 60 ? rejected : accepted), {
    decideDeadLetter: async () => (++letters <= 2 ? "store" : "wait"),
  });
  const { exported, deadLetters } = await run();
  expect(deadLetters).toHaveLength(2);
  expect(exported).toBe(7);
  expect(states).toContain("too many dead letters: HTTP 400 malformed");
});

it("counts the items of a partial success and sends nothing again", async () => {
  const outcome = { status: "accepted", rejectedItems: 4, message: "too old" } as const;
  const { run, accepted: got, partial } = createDelivery(() => outcome);
  const last = { envelope: envelopes.at(-1), items: 4 };
  expect(await run()).toEqual({
    ...noOutcome,
    exported: 9,
    rejectedItems: 4,
    partial: [last],
  });
  expect(got).toEqual(all);
  expect(partial).toMatchObject([{ signal: "logs", items: 4, message: "too old", envelopes }]);
});

it("counts the items of a partial success to no host when it does not say whose they are", async () => {
  const { run } = createDelivery(() => ({
    status: "accepted",
    rejectedItems: 4,
    message: "too old",
  }));
  const other = { ...(envelopes[0] as StoredEnvelope), hostId: "other" };
  expect(await run({ envelopes: [...envelopes, other] })).toMatchObject({
    rejectedItems: 4,
    partial: [],
  });
});

it("K8: keeps an envelope that is alone in a partial success as a dead letter, with what the backend says", async () => {
  const { run } = createDelivery(() => ({
    status: "accepted",
    rejectedItems: 1,
    message: "too old",
  }));
  const { exported, deadLetters } = await run({ envelopes: envelopes.slice(0, 1) });
  expect(exported).toBe(0);
  expect(deadLetters).toMatchObject([
    { envelope: { sequence: 1n }, reason: "1 of its items were rejected: too old", items: 1 },
  ]);
});

it("drops what a host sends beyond its share of dead letters, and delivers the rest", async () => {
  const isBad = (line: string) => line === "line-3" || line === "line-8";
  const { run, accepted: got } = createDelivery(
    (lines) => (lines.some(isBad) ? rejected : accepted),
    {
      decideDeadLetter: async () => "drop",
    },
  );
  const { exported, deadLetters, dropped } = await run();
  expect([exported, deadLetters.length]).toEqual([7, 0]);
  expect(dropped.map(({ envelope }) => envelope.sequence)).toEqual([3n, 8n]);
  expect(got).toEqual(all.filter((line) => !isBad(line)));
});

it("K8: sends no line more than four times to a backend that stores what it answers late", async () => {
  const sent = new Map<string, number>();
  const { run } = createDelivery((lines, _, timeoutMs = 10_000) => {
    for (const line of lines) sent.set(line, (sent.get(line) ?? 0) + 1);
    // It needs four minutes, however little it is sent, and stores everything.
    return timeoutMs < 240_000
      ? { status: "retry", afterMs: null, reason: "no response in time", isTimeout: true }
      : accepted;
  });
  const first = await run();
  expect(first.exported).toBe(9);
  expect(Math.max(...sent.values())).toBeLessThanOrEqual(4);
  sent.clear();
  await run();
  expect([...sent.values()]).toEqual(all.map(() => 1));
});

it("rejects a malformed payload itself, since no resource of it could be attested", async () => {
  const malformed = {
    ...(envelopes[0] as StoredEnvelope),
    kind: "otel_span",
    payload: Uint8Array.of(10, 5),
  };
  let calls = 0;
  const { run } = createDelivery((_, call) => {
    calls = call;
    return accepted;
  });
  const { deadLetters } = await run({ signal: "traces", envelopes: [malformed] });
  expect(deadLetters).toMatchObject([{ reason: "the payload is no OTLP request" }]);
  expect(calls).toBe(0);
  // Whole resources, whose contents are not: found among others.
  const inner = { ...malformed, payload: Uint8Array.of(10, 2, 10, 5) };
  const mixed = await run({ signal: "traces", envelopes: [...envelopes.slice(0, 3), inner] });
  expect(mixed).toMatchObject({ exported: 3, deadLetters: [{ envelope: inner }] });
});

it("takes no number of malformed payloads for a fault of the backend, however few hosts there are", async () => {
  const malformed = {
    ...(envelopes[0] as StoredEnvelope),
    kind: "otel_span",
    payload: Uint8Array.of(10, 5),
  };
  const abort = new AbortController();
  const { run, states } = createDelivery(() => accepted, {
    decideDeadLetter: async () => "wait",
    clock: { sleep: async () => abort.abort(new Error("it waits")) },
    signal: abort.signal,
  });
  expect(await run({ signal: "traces", envelopes: [malformed] })).toMatchObject({
    dropped: [{ reason: "the payload is no OTLP request" }],
  });
  expect(states).toEqual([]);
});

it("ends when it is aborted", async () => {
  const abort = new AbortController();
  const { run } = createDelivery(
    (_, call) => {
      if (call === 3) abort.abort(new Error("stop"));
      return { status: "retry", afterMs: null, reason: "" };
    },
    { signal: abort.signal },
  );
  await expect(run()).rejects.toThrow("stop");
});

it("frees the bytes of a request that the client has compressed, and no payload", async () => {
  const bodies: Uint8Array[] = [];
  const sent: number[] = [];
  const send: DeliveryOptions["client"]["send"] = async (_, body) => {
    bodies.push(body);
    sent.push(body.length);
    return sent.length % 2 === 1 ? { status: "retry", afterMs: 0, reason: "busy" } : accepted;
  };
  const payload = new Uint8Array([10, 0]);
  const own = { ...(envelopes[0] as StoredEnvelope), kind: "otel_log", payload };
  const { run } = createDelivery(() => accepted, {
    client: { send },
    isAttested: false,
    isCompressed: true,
    writer: new BinaryWriter(),
  });
  await run();
  await run({ envelopes: [own] });
  expect(sent[0]).toBeGreaterThan(100);
  expect(sent).toEqual([sent[0], sent[0], 2, 2]);
  expect(bodies.map(({ length }) => length)).toEqual([0, 0, 0, 0]);
  expect(payload).toEqual(Uint8Array.of(10, 0));
});
