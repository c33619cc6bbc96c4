import { createHash } from "node:crypto";
import type { NewRecord } from "../../../collector/queue/record.ts";

/** The record of a number: its payload follows from it, so that a torn one cannot be taken for it. */
export const numberedRecord = (number: number): NewRecord => ({
  kind: "log_line",
  observedAtMs: 1,
  source: "crash",
  attributes: { number: `${number}` },
  payload: createHash("sha256")
    .update(`${number}`)
    .digest()
    .subarray(0, 1 + (number % 32)),
});
