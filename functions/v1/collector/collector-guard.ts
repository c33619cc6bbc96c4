import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import {
  type ProveCore,
  type ProvenCollector,
  proveCollector,
  verifyClientChain,
} from "#functions/domain/certificate/authenticate.ts";
import type { HttpContext } from "#functions/http/request.ts";
import { parse } from "#functions/http/route.ts";
import type { Body, DocumentedProblem, Guard } from "#functions/http/route-definition.ts";
import { Problem, type ProblemCode } from "#functions/problems.ts";
import { readValue, tag } from "#proto/certificate-der.ts";
import {
  managementBytesMax,
  ProofFields,
  type ProofPurpose,
  provableFault,
} from "#proto/management/proof.ts";
import { decodePem } from "#proto/pem.ts";
import { isRecord } from "#proto/values.ts";

const Proof = v.object(ProofFields);

/** The parts of core that the guard of collectors uses. */
export type ManagementCore = ProveCore & Pick<Core, "config">;

/** The problems of every management request. */
export const managementProblems = [
  "client_certificate_required",
  "client_certificate_header_invalid",
  "certificate_identity_invalid",
  "certificate_unknown",
  "certificate_revoked",
  "certificate_replaced",
  "agent_not_allowed",
  "certificate_expired",
  { code: "identity_revoked", kind: "unauthenticated" },
  "clock_skew",
  "proof_invalid",
  "stale_request",
  "rate_limited",
] as const satisfies readonly DocumentedProblem[];

/**
 * Admits a collector that holds the key of a client certificate which chains to the bundle, and has signed this exact body for this purpose
 * (docs/api.md). The verb checks the certificate's row and `sent_at` with its own work: see `admitProof`. Calls `onRefused` with the
 * code of each refusal.
 */
export const collector = (
  core: ManagementCore,
  purpose: ProofPurpose,
  onRefused: (code: ProblemCode) => void = () => undefined,
): Guard<ProvenCollector> => ({
  describe: { kind: "collector" },
  bodyBytesMax: managementBytesMax,
  admit: (c, body) =>
    admit(core, purpose, c, body).catch((error: unknown) => {
      onRefused(error instanceof Problem ? error.code : "internal");
      throw error;
    }),
});

const admit = async (core: ManagementCore, purpose: ProofPurpose, c: HttpContext, body: Body) => {
  const der = clientCertificateOf(c, core.config.clientCertificateHeader);
  if (der === null) throw new Problem("client_certificate_required");
  // Before the body: core buffers a body only for a caller with a certificate. The result is cached for the proof.
  await verifyClientChain(core, der);
  return proveBody(core, { purpose, der, body: await body.json() });
};

/** Returns the caller whose key has signed this body for this purpose; throws a problem of `managementProblems`, or `validation_failed`. */
export const proveBody = async (
  core: ProveCore,
  { purpose, der, body }: { purpose: ProofPurpose; der: Uint8Array; body: unknown },
): Promise<ProvenCollector> => {
  if (!isRecord(body)) throw unprovable("must be an object");
  const message = provableFault(body);
  if (message !== undefined) throw unprovable(message);
  const { sent_at: sentAt, proof } = parse(Proof, body);
  return proveCollector(core, { der, purpose, body, sentAt, proof });
};

const unprovable = (message: string): Problem =>
  new Problem("validation_failed", { errors: [{ path: "", message }] });

/** The most characters of the header, before decoding. */
const headerCharactersMax = 16_384;

/**
 * Returns the DER of the caller's client certificate, null without one: from `header` if one is configured and the listener is the plain
 * one, otherwise from the TLS socket. Throws 400 `client_certificate_header_invalid` unless the header is one percent-encoded PEM
 * certificate, given once.
 */
export const clientCertificateOf = (c: HttpContext, header: string | null) => {
  const { certificate, listener } = c.get("peer");
  const value = header === null || listener === "ingest" ? undefined : c.req.header(header);
  return value === undefined ? certificate : decodeHeader(value);
};

const decodeHeader = (value: string) => {
  // The platform joins copies of a header with a comma, which no percent-encoded PEM holds; nor does it hold white space.
  const isEncoded = value.length <= headerCharactersMax && /^[A-Za-z0-9%+/=._~-]+$/.test(value);
  const der = isEncoded ? decodePem(decodePercent(value), "CERTIFICATE") : undefined;
  if (der === undefined || !isOneElement(der))
    throw new Problem("client_certificate_header_invalid");
  return der;
};

const isOneElement = (der: Uint8Array) => {
  try {
    readValue(der, tag.sequence);
    return true;
  } catch {
    return false;
  }
};

/** Decodes percent-encoding only: a `+` stays a `+`, as base64 needs it. */
const decodePercent = (value: string) => {
  try {
    return decodeURIComponent(value);
  } catch {
    return "";
  }
};
