/*
 * Signed management requests: mutual TLS, and a proof in the body (docs/api.md). Invariant: the `sent_at` of one purpose increases with each
 * request, also across restarts and when the clock is set back; otherwise core rejects the request as a replay.
 */
import { createHash, type KeyObject, sign } from "node:crypto";
import { readFile } from "node:fs/promises";
import { type Clock, rfc3339 } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import {
  canonicalBody,
  clockSkewMsMax,
  type ProofPurpose,
  proofPayload,
} from "#proto/management/proof.ts";
import { parseTimestamp } from "#proto/values.ts";
import { writeDurably } from "../files/private-files.ts";
import type { Credentials } from "../identity/credentials.ts";
import { failureOfResponse, type ManagementResponse } from "./management-error.ts";
import { postJson, type TransportOptions } from "./transport.ts";

/** Creates increasing `sent_at` values for one purpose. */
interface SentAt {
  /**
   * Returns max(now, last + 1 ms) after writing it to disk. Returns it even if the write fails: heartbeats must report the full disk, and core
   * returns the last value to a later process that has lost it. Ignores a last value beyond the skew that core allows: core cannot have accepted
   * it, and would reject every request until that time.
   */
  next(): Promise<string>;
  /** Continues above `lastSentAt`, the newest value that core accepted. */
  adopt(lastSentAt: string): void;
  /** Uses core's clock, whose time is `serverTime` now, instead of this host's, until the next call. */
  follow(serverTime: string): void;
  /** Returns how far this host's clock is ahead of core's; 0 unless `follow` was called. */
  skewSeconds(): number;
}

/** Creates a `SentAt` that keeps its last value in the file `path`: one file for each purpose, one process at a time. */
export const createSentAt = (
  path: string,
  { clock, entropy }: { clock: Clock; entropy: Entropy },
): SentAt => {
  let last: number | undefined;
  let aheadMs = 0;
  const load = async () => {
    const text = await readFile(path, "utf8").catch(() => "");
    return parseTimestamp(text.trim()) ?? 0;
  };
  return {
    next: async () => {
      const now = clock.now() + aheadMs;
      last ??= await load();
      last = last > now + clockSkewMsMax ? now : Math.max(now, last + 1);
      const text = rfc3339(last);
      await writeDurably(path, `${text}\n`, { entropy }).catch(() => undefined);
      return text;
    },
    adopt: (lastSentAt) => {
      last = Math.max(last ?? 0, parseTimestamp(lastSentAt) ?? 0);
    },
    follow: (serverTime) => {
      const time = parseTimestamp(serverTime);
      if (time !== undefined) aheadMs = time - clock.now();
    },
    skewSeconds: () => Math.round(-aheadMs / 1000),
  };
};

/** The caller of a management request: the credentials that it presents and signs with, and the `sent_at` of the purpose. */
export interface ManagementCaller {
  credentials: Credentials;
  sentAt: SentAt;
  signal?: AbortSignal;
}

/**
 * Signs and posts `fields`. Posts once more if core names a newer `sent_at`, as after this host's clock was set back and its file was lost.
 * Posts a heartbeat once more with core's clock if this host's is wrong, because it may have to report that renewals fail for that reason (case
 * R7). Does not do so for a renewal: with a clock that is weeks ahead, every new certificate would be due at once.
 */
export const postSigned = async (
  transport: TransportOptions,
  purpose: ProofPurpose,
  path: string,
  { credentials, sentAt, signal }: ManagementCaller,
  fields: object,
): Promise<ManagementResponse> => {
  const post = async () =>
    postJson(transport, {
      path,
      body: signBody(purpose, credentials, { sent_at: await sentAt.next(), ...fields }),
      credentials,
      ...(signal === undefined ? {} : { signal }),
    });
  const response = await post();
  const { lastSentAt, serverTime } = [401, 409].includes(response.status)
    ? failureOfResponse(response)
    : {};
  if (lastSentAt !== undefined) sentAt.adopt(lastSentAt);
  else if (serverTime !== undefined && purpose === "heartbeat") sentAt.follow(serverTime);
  else return response;
  return post();
};

/** Returns `body`, which has its `sent_at`, with its `proof`: a signature by the key of the presented certificate. */
export const signBody = <Body extends { sent_at: string }>(
  purpose: ProofPurpose,
  {
    identity,
    fingerprintSha256,
    privateKey,
  }: Pick<Credentials, "identity" | "fingerprintSha256" | "privateKey">,
  body: Body,
): Body & { proof: string } => {
  const payload = proofPayload({
    purpose,
    identity,
    certificateSha256: fingerprintSha256,
    sentAt: body.sent_at,
    bodySha256: createHash("sha256").update(canonicalBody(body)).digest("hex"),
  });
  return { ...body, proof: signBytes(privateKey, Buffer.from(payload)).toString("base64") };
};

/** Signs bytes as core verifies them: ECDSA in DER with the hash that belongs to the curve, or Ed25519. */
export const signBytes = (privateKey: KeyObject, bytes: Uint8Array): Buffer =>
  sign(digestFor(privateKey), bytes, privateKey);

const digests: Partial<Record<string, string>> = { prime256v1: "sha256", secp384r1: "sha384" };

const digestFor = (key: KeyObject) => {
  if (key.asymmetricKeyType === "ed25519") return null;
  const digest = digests[key.asymmetricKeyDetails?.namedCurve ?? ""];
  if (digest === undefined)
    throw new Error("management requests need a P-256, P-384 or Ed25519 key");
  return digest;
};
