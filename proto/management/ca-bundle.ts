import * as v from "valibot";
import { Sha256Hex, Timestamp, WholeNumber } from "../values.ts";
import { ProofFields } from "./proof.ts";

/** The two listeners of core that a host verifies, each by authorities of its own. */
export const caChannels = ["ingest", "management"] as const;

/** A listener of core, as a host verifies it. */
export type CaChannel = (typeof caChannels)[number];

/** The largest bundle, in bytes of its PEM. */
export const caBundleBytesMax = 64 * 1024;

/**
 * The authorities that core publishes for one channel. A host takes it only over a connection of that channel, which the authorities that
 * it already has for it have verified, and only with a higher number than that of the bundle that it has.
 */
export const CaBundle = v.object({
  /** One above that of the bundle before, at least. */
  number: WholeNumber(1),
  /** Of `pem`. */
  sha256: Sha256Hex,
  pem: v.pipe(v.string(), v.maxBytes(caBundleBytesMax)),
  published_at: Timestamp,
});

/** A published bundle on the wire. */
export type CaBundle = v.InferOutput<typeof CaBundle>;

/** The newest bundles of both channels; null where none is published. */
export const CaBundles = v.object({
  ingest: v.nullable(CaBundle),
  management: v.nullable(CaBundle),
});

/** The numbers of the newest bundles; 0 where none is published. They only tell a host that it may fetch one. */
export const CaBundleNumbers = v.object({
  ingest: WholeNumber(0),
  management: WholeNumber(0),
});

/** The numbers of the newest bundles on the wire. */
export type CaBundleNumbers = v.InferOutput<typeof CaBundleNumbers>;

/** Body of `POST /v1/collector/ca-bundle`. Unknown fields are ignored, but the proof covers them. */
export const CaBundleRequest = v.object({
  ...ProofFields,
  channel: v.picklist(caChannels, "must be ingest or management"),
});

/** Response: the newest bundle of the channel; null while none is published. */
export const CaBundleResponse = v.object({ bundle: v.nullable(CaBundle) });
