import { hash } from "node:crypto";

/** Creates the record of a number. Its payload is derived from the number, so that a torn record is detected. */
export const numberedRecord = (number: number) => ({
  kind: "log_line",
  observedAtMs: 1,
  source: "crash",
  attributes: { number: `${number}` },
  payload: hash("sha256", `${number}`, "buffer").subarray(0, 1 + (number % 32)),
});
