import * as v from "valibot";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { Core } from "../../../core.ts";
import { revokeCertificate } from "../../../domain/certificate/identities.ts";
import { scope } from "../../../http/guards.ts";
import { route } from "../../../http/route.ts";
import { IdParams, ReasonBody } from "../../shapes.ts";

const RevokedCertificateView = v.strictObject({
  id: Id,
  identity_id: Id,
  serial_number: v.string(),
  fingerprint_sha256: v.string(),
  status: v.picklist(["revoked"]),
  not_after: IsoTimestamp,
  revoked_at: IsoTimestamp,
  other_active_certificate_ids: v.array(Id),
});

/** `POST /v1/collector/certificates/{id}/revoke`: revokes a certificate, and its successor if that is unused. */
export const revokeCertificateRoute = (core: Pick<Core, "config" | "db" | "clock" | "entropy">) =>
  route({
    method: "POST",
    path: "/v1/collector/certificates/:id/revoke",
    operationId: "revokeCertificate",
    summary: "Revoke one certificate; idempotent, lists the identity's other active ones",
    guard: scope(core, "admin"),
    params: IdParams,
    body: ReasonBody,
    bodyAbsentAs: {},
    bodyExample: { reason_code: "key_exposed" },
    replies: { 200: { description: "The revoked certificate", schema: RevokedCertificateView } },
    problems: ["not_found"],
    handle: async ({ params, body, caller, origin }) => {
      const change = { certificateId: params.id, reasonCode: body.reason_code ?? null };
      const { certificate, otherActiveCertificateIds } = await revokeCertificate(core, caller, change, origin);
      return {
        status: 200,
        body: {
          id: certificate.id,
          identity_id: certificate.identityId,
          serial_number: certificate.serialNumber,
          fingerprint_sha256: certificate.fingerprintSha256.toHex(),
          status: "revoked",
          not_after: certificate.notAfter.toISOString(),
          revoked_at: certificate.revokedAt?.toISOString(),
          other_active_certificate_ids: otherActiveCertificateIds,
        },
      };
    },
  });
