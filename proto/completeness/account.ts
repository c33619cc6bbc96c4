/** Accounts of hosts (`Account` in ingest.proto): the bytes that their signature and hash cover, and the losses that they state. */
import { concatBytes } from "#kit/bytes.ts";
import type { AccountBody } from "../gen/svc/ingest/v1/ingest_pb.js";
import { addRule } from "./hour-accounts.ts";

/** Why a collector did not accept records, in the order of `AccountRefusalReason`, which begins at 1. */
export const sourceRefusals = ["queue_full", "too_large", "malformed", "retry"] as const;

/** One of `sourceRefusals`. */
export type SourceRefusal = (typeof sourceRefusals)[number];

const prefix = new TextEncoder().encode("svc-account-v1\n");

/** Returns the bytes that an account's signature covers, and of which its hash is the SHA-256. */
export const accountPayload = (body: Uint8Array): Uint8Array<ArrayBuffer> =>
  concatBytes([prefix, body]);

/** The records that a host reports not to have accepted, to have lost, or to have changed. */
export interface StatedLosses {
  refused: Readonly<Partial<Record<SourceRefusal, number>>>;
  expired: number;
  damaged: number;
  fileGapBytes: number;
  /** Gaps of log files, also of unknown size. */
  fileGaps: number;
  /** Records that rules of its config dropped or changed. */
  filtered: number;
  redacted: number;
  /** The same by rule. */
  rules: ReadonlyMap<string, RuleCounts>;
}

/** The records that a rule dropped, and those that it changed. */
export type RuleCounts = Pick<StatedLosses, "filtered" | "redacted">;

/** Returns the losses that an account states, each at most 2^53 - 1. */
export const statedLosses = (body: AccountBody): StatedLosses => {
  const totals: Partial<Record<SourceRefusal, number>> = {};
  for (const { reason, records } of body.refused) {
    const name = sourceRefusals[reason - 1];
    if (name) totals[name] = limited(BigInt(totals[name] ?? 0) + records);
  }
  const rules = new Map<string, RuleCounts>();
  const sumOf = (name: keyof RuleCounts) => {
    for (const { rule, records } of body[name]) addRule(rules, rule, { [name]: limited(records) });
    return limited(body[name].reduce((sum, { records }) => sum + records, 0n));
  };
  return {
    refused: totals,
    expired: limited(body.expired),
    damaged: limited(body.damaged),
    fileGapBytes: limited(body.fileGapBytes),
    fileGaps: limited(body.fileGaps),
    filtered: sumOf("filtered"),
    redacted: sumOf("redacted"),
    rules,
  };
};

const limited = (count: bigint) =>
  count > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(count);
