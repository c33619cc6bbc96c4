import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemEntropy } from "../../kit/entropy.ts";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createSentAt } from "./sent-at.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sent-at-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const noon = Date.UTC(2026, 5, 1, 12);
const open = (now: number) =>
  createSentAt(join(dir, "sent-at"), { clock: createTestClock(now), entropy: systemEntropy });

describe("createSentAt", () => {
  it("H1: rises by a millisecond while the clock stands still or goes back, also across restarts", async () => {
    const first = open(noon);
    expect([await first.next(), await first.next()]).toEqual(["2026-06-01T12:00:00.000Z", "2026-06-01T12:00:00.001Z"]);
    expect(await open(noon - 60_000).next()).toBe("2026-06-01T12:00:00.002Z");
    expect(await open(noon + 5).next()).toBe("2026-06-01T12:00:00.005Z");
  });

  it("Q3: goes on while its file cannot be written", async () => {
    await rm(dir, { recursive: true });
    const sentAt = open(noon);
    expect([await sentAt.next(), await sentAt.next()]).toEqual([
      "2026-06-01T12:00:00.000Z",
      "2026-06-01T12:00:00.001Z",
    ]);
  });

  it("takes over what core knows, and goes on from there", async () => {
    const sentAt = open(noon);
    sentAt.adopt("2026-06-01T12:00:30.000Z");
    expect(await sentAt.next()).toBe("2026-06-01T12:00:30.001Z");
  });

  it("R7: forgets a time that core cannot have accepted, so that a clock once 40 days ahead silences nothing", async () => {
    await open(noon + 40 * 86_400_000).next();
    expect(await open(noon).next()).toBe("2026-06-01T12:00:00.000Z");
    const sentAt = open(noon);
    sentAt.adopt("9999-12-31T23:59:59.999Z");
    expect(await sentAt.next()).toBe("2026-06-01T12:00:00.000Z");
  });

  it("R7: follows core's clock once it is told, whichever way this host's is wrong", async () => {
    for (const days of [40, -1]) {
      const sentAt = open(noon + days * 86_400_000);
      await sentAt.next();
      sentAt.follow("2026-06-01T12:00:10.000Z");
      expect(await sentAt.next()).toBe("2026-06-01T12:00:10.000Z");
      await rm(join(dir, "sent-at"));
    }
  });
});
