import * as v from "valibot";
import { CaBundle } from "./enroll.ts";
import { ProofFields } from "./proof.ts";

/** The two listeners of core that a host verifies, each by authorities of its own. */
export const caChannels = ["ingest", "management"] as const;

/** A listener of core, as a host verifies it. */
export type CaChannel = (typeof caChannels)[number];

/** Body of `POST /v1/collector/ca-bundle`. Unknown fields are ignored, but the proof covers them. */
export const CaBundleRequest = v.object({
  ...ProofFields,
  channel: v.picklist(caChannels, "must be ingest or management"),
});

/** Response: the newest bundle of the channel; null while none is published. */
export const CaBundleResponse = v.object({ bundle: v.nullable(CaBundle) });
