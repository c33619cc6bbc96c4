import * as v from "valibot";
import { CsrPem } from "./enroll.ts";
import { ProofFields } from "./proof.ts";
import { Identifier } from "./text.ts";

/** Body of `POST /v1/collector/renew`; the response is `CertificateIssued`. Unknown fields are ignored, but the proof covers them. */
export const RenewRequest = v.object({
  ...ProofFields,
  csr_pem: CsrPem,
  collector_version: Identifier(64),
});

/** A parsed renewal request. */
export type RenewRequest = v.InferOutput<typeof RenewRequest>;
