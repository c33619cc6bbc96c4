import { createPrivateKey, createPublicKey, hash, verify } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { systemEntropy } from "#kit/entropy.ts";
import { canonicalBody, proofPayload } from "#proto/management/proof.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { createSentAt, signBody } from "./signed-request.ts";

let dir: string;
beforeEach(async () => {
  dir = newFolder();
});

const noon = Date.UTC(2026, 5, 1, 12);
const open = (now: number) =>
  createSentAt(join(dir, "sent-at"), { clock: createTestClock(now), entropy: systemEntropy });

describe("createSentAt", () => {
  it("H1: rises by a millisecond while the clock stops or is set back, also across restarts", async () => {
    const first = open(noon);
    expect([await first.next(), await first.next()]).toEqual([
      "2026-06-01T12:00:00.000Z",
      "2026-06-01T12:00:00.001Z",
    ]);
    expect(await open(noon - 60_000).next()).toBe("2026-06-01T12:00:00.002Z");
    expect(await open(noon + 5).next()).toBe("2026-06-01T12:00:00.005Z");
  });

  it("Q3: keeps rising while its file cannot be written", async () => {
    await rm(dir, { recursive: true });
    const sentAt = open(noon);
    expect([await sentAt.next(), await sentAt.next()]).toEqual([
      "2026-06-01T12:00:00.000Z",
      "2026-06-01T12:00:00.001Z",
    ]);
  });

  it("continues above the value that core accepted last", async () => {
    const sentAt = open(noon);
    sentAt.adopt("2026-06-01T12:00:30.000Z");
    expect(await sentAt.next()).toBe("2026-06-01T12:00:30.001Z");
  });

  it("R7: ignores a value that core cannot have accepted, as after a clock that was 40 days ahead", async () => {
    await open(noon + 40 * 86_400_000).next();
    expect(await open(noon).next()).toBe("2026-06-01T12:00:00.000Z");
    const sentAt = open(noon);
    sentAt.adopt("9999-12-31T23:59:59.999Z");
    expect(await sentAt.next()).toBe("2026-06-01T12:00:00.000Z");
  });

  it("R7: follows core's clock when this host's is ahead or behind", async () => {
    for (const days of [40, -1]) {
      const sentAt = open(noon + days * 86_400_000);
      await sentAt.next();
      sentAt.follow("2026-06-01T12:00:10.000Z");
      expect(await sentAt.next()).toBe("2026-06-01T12:00:10.000Z");
      await rm(join(dir, "sent-at"));
    }
  });
});

it.each([
  ["p256", "sha256"],
  ["p384", "sha384"],
  ["ed25519", null],
] as const)(
  "signBody signs the canonical body, unknown fields included, with a %s key",
  async (kind, digest) => {
    const key = await createTestKey(kind);
    const privateKey = createPrivateKey(key.pem);
    const signer = {
      identity: "https://fleet.test/d/1",
      fingerprintSha256: "ab".repeat(32),
      privateKey,
    };
    const body = {
      z: [1, { b: "é\u2028", a: null }],
      absent: undefined,
      sent_at: "2026-06-01T12:00:00.000Z",
      future: true,
    };
    const signed = signBody("heartbeat", signer, body);
    // Core receives the body as JSON.
    const received = JSON.parse(JSON.stringify(signed));
    const payload = proofPayload({
      purpose: "heartbeat",
      identity: signer.identity,
      certificateSha256: signer.fingerprintSha256,
      sentAt: received.sent_at,
      bodySha256: hash("sha256", canonicalBody(received)),
    });
    const check = (text: string) =>
      verify(
        digest,
        Buffer.from(text),
        createPublicKey(privateKey),
        Buffer.from(signed.proof, "base64"),
      );
    expect(check(payload)).toBe(true);
    expect(check(payload.replace("heartbeat", "renew"))).toBe(false);
  },
);
