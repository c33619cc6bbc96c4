import * as v from "valibot";

/** An envelope as a line of `GET /v1/collector/hosts/{id}/envelopes`. */
export const EnvelopeLine = v.object({
  host_id: v.string(),
  /** 32 hexadecimal digits. */
  queue_id: v.string(),
  /** Decimal: up to 2^63 - 1. */
  sequence: v.string(),
  kind: v.string(),
  observed_at: v.nullable(v.string()),
  received_at: v.string(),
  source: v.string(),
  attributes: v.record(v.string(), v.string()),
  /** A readable text for each record; with `grep` only those that contain it. */
  text: v.array(v.string()),
  /** Base64: what the host sent, unchanged. */
  payload: v.string(),
});

/** An envelope as a line of `GET /v1/collector/hosts/{id}/envelopes`. */
export type EnvelopeLine = v.InferOutput<typeof EnvelopeLine>;

/** A stored block that cannot be read, because its data differ from those that core stored. */
export const DamagedBlockLine = v.object({
  damaged_block: v.object({
    queue_id: v.string(),
    first_sequence: v.string(),
    last_sequence: v.string(),
    envelopes: v.number(),
    received_at: v.string(),
  }),
});

/** A stored block that cannot be read. */
export type DamagedBlockLine = v.InferOutput<typeof DamagedBlockLine>;
