import * as v from "valibot";
import { ProofFields, type ProofPurpose, provableFault } from "../../proto/management/proof.ts";
import type { Core } from "../core.ts";
import { type ProveCore, type ProvenCollector, proveCollector } from "../domain/certificate/prove.ts";
import { Problem, type ProblemCode } from "../problems.ts";
import { clientCertificateOf } from "./client-certificate.ts";
import { parse } from "./parse.ts";
import type { HttpContext } from "./request.ts";
import type { Body, DocumentedProblem, Guard } from "./route.ts";

const Proof = v.object(ProofFields);

/** What the guard of collectors needs of core. */
export type ManagementCore = ProveCore & Pick<Core, "config">;

/** What every management request may be refused with. */
export const managementProblems = [
  "client_certificate_required",
  "client_certificate_header_invalid",
  "certificate_identity_invalid",
  "certificate_unknown",
  "certificate_revoked",
  "certificate_replaced",
  "certificate_expired",
  { code: "identity_revoked", kind: "unauthenticated" },
  "clock_skew",
  "proof_invalid",
  "stale_request",
  "rate_limited",
] as const satisfies readonly DocumentedProblem[];

/**
 * A collector that holds the key of a client certificate which chains to the bundle, and has signed this very body for this
 * purpose (contract, section 4). Whether the certificate's row and the `sent_at` are good is decided with the work itself, in one
 * statement or transaction: see `admitProof`. `refused` hears of each refusal here.
 */
export const collector = (
  core: ManagementCore,
  purpose: ProofPurpose,
  refused: (code: ProblemCode) => void = () => undefined,
): Guard<ProvenCollector> => ({
  describe: { kind: "collector" },
  admit: (c, body) =>
    admit(core, purpose, c, body).catch((error: unknown) => {
      refused(error instanceof Problem ? error.code : "internal");
      throw error;
    }),
});

const admit = async (core: ManagementCore, purpose: ProofPurpose, c: HttpContext, body: Body) => {
  const der = clientCertificateOf(c, core.config.clientCertificateHeader);
  if (der === null) throw new Problem("client_certificate_required");
  const request = await body.json();
  if (!isObject(request)) throw unprovable("must be an object");
  const message = provableFault(request);
  if (message !== undefined) throw unprovable(message);
  const { sent_at: sentAt, proof } = parse(Proof, request);
  return proveCollector(core, { der, purpose, body: request, sentAt, proof });
};

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const unprovable = (message: string): Problem => new Problem("validation_failed", { errors: [{ path: "", message }] });
