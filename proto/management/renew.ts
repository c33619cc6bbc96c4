import * as v from "valibot";
import { Identifier } from "../values.ts";
import { CsrPem } from "./enroll.ts";
import { ProofFields } from "./proof.ts";

/** Body of `POST /v1/collector/renew`; the response is `CertificateIssued`. Unknown fields are ignored, but the proof covers them. */
export const RenewRequest = v.object({
  ...ProofFields,
  csr_pem: CsrPem,
  collector_version: Identifier(64),
});

/** A parsed renewal request. */
export type RenewRequest = v.InferOutput<typeof RenewRequest>;
