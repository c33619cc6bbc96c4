import { describe, expect, it } from "vitest";
import { createSeededEntropy } from "../../tests/fakes/entropy.ts";
import type { StoredEnvelope } from "../store/read-envelopes.ts";
import { type DeliveryOptions, deliver } from "./deliver.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";

const envelopes = Array.from(
  { length: 9 },
  (_, index): StoredEnvelope => ({
    hostId: "h",
    queueId: new Uint8Array(16),
    sequence: BigInt(index + 1),
    kind: "log_line",
    observedAt: null,
    receivedAt: 0n,
    source: "",
    attributes: {},
    payload: new TextEncoder().encode(`line-${index + 1};`),
  }),
);
const linesIn = (body: Uint8Array) => new TextDecoder("latin1").decode(body).match(/line-\d+/g) ?? [];

const createDelivery = (
  answer: (lines: string[], call: number) => OtlpOutcome,
  some: Partial<DeliveryOptions> = {},
) => {
  const waits: number[] = [];
  const accepted: string[] = [];
  const states: (string | null)[] = [];
  let calls = 0;
  const options: DeliveryOptions = {
    client: {
      send: async (_, body) => {
        const lines = linesIn(body);
        const outcome = answer(lines, ++calls);
        if (outcome.status === "accepted") accepted.push(...lines);
        return outcome;
      },
    },
    clock: { sleep: async (ms) => void waits.push(ms) },
    entropy: createSeededEntropy(),
    observe: { request: () => undefined, state: (reason) => void states.push(reason) },
    admitDeadLetter: async () => true,
    signal: new AbortController().signal,
    ...some,
  };
  return { run: () => deliver({ signal: "logs", envelopes }, options), waits, accepted, states };
};
const accepted: OtlpOutcome = { status: "accepted", rejectedItems: 0, message: "" };
const rejected: OtlpOutcome = { status: "rejected", reason: "HTTP 400 malformed" };
const all = envelopes.map(({ sequence }) => `line-${sequence}`);

describe("deliver", () => {
  it("sends again until the backend accepts, after as long as it says", async () => {
    const {
      run,
      waits,
      accepted: got,
      states,
    } = createDelivery((_, call) =>
      call < 3 ? { status: "retry", afterMs: call === 1 ? 7_000 : null, reason: "HTTP 503" } : accepted,
    );
    expect(await run()).toEqual({ exported: 9, rejectedItems: 0, deadLetters: [] });
    expect(got).toEqual(all);
    expect(waits[0]).toBeGreaterThanOrEqual(7_000);
    expect(waits[1]).toBeLessThan(1_000);
    expect(states).toEqual(["HTTP 503", "HTTP 503", null]);
  });

  it("finds the envelopes that a backend rejects, and delivers the others in their order", async () => {
    const isBad = (line: string) => line === "line-3" || line === "line-8";
    const { run, accepted: got, waits } = createDelivery((lines) => (lines.some(isBad) ? rejected : accepted));
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
    } = createDelivery((_, call) => (call < 20 ? { status: "refused", reason: "HTTP 401" } : accepted));
    expect(await run()).toMatchObject({ exported: 9, deadLetters: [] });
    expect(got).toEqual(all);
    expect(Math.max(...waits)).toBeLessThanOrEqual(60_000);
    expect(Math.max(...waits)).toBeGreaterThan(20_000);
  });

  it("waits instead of making more dead letters than it may", async () => {
    let letters = 0;
    let calls = 0;
    const { run, states } = createDelivery(() => (++calls < 60 ? rejected : accepted), {
      admitDeadLetter: async () => ++letters <= 2,
    });
    const { exported, deadLetters } = await run();
    expect(deadLetters).toHaveLength(2);
    expect(exported).toBe(7);
    expect(states).toContain("too many dead letters: HTTP 400 malformed");
  });

  it("counts the items of a partial success and sends nothing again", async () => {
    const { run, accepted: got } = createDelivery(() => ({ status: "accepted", rejectedItems: 4, message: "old" }));
    expect(await run()).toEqual({ exported: 9, rejectedItems: 4, deadLetters: [] });
    expect(got).toEqual(all);
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
});
