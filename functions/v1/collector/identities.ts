import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import {
  browseCertificates,
  browseIdentities,
  getIdentity,
  revokeCertificate,
  revokeIdentity,
} from "#functions/domain/certificate/identities.ts";
import { reasonBody, resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import type { IdentityRow } from "#functions/store/certificate/identities.ts";
import { certificateStatus } from "#proto/fleet-health/vocabulary.ts";
import { CertificatePage, CertificateView } from "#proto/operator/certificate.ts";
import {
  Id,
  Identifier,
  IsoTimestamp,
  PageOf,
  TextOrNull,
  TimestampOrNull,
} from "#proto/values.ts";

const IdentityView = v.strictObject({
  id: Id,
  identity: v.string(),
  device_id: v.string(),
  policy_id: Id,
  token_id: Id,
  hostname: TextOrNull,
  platform: v.string(),
  collector_version: v.string(),
  status: v.picklist(["active", "revoked"]),
  enrolled_at: IsoTimestamp,
  revoked_at: TimestampOrNull,
  last_auth_failure: v.nullable(v.strictObject({ at: IsoTimestamp, reason: v.string() })),
});

const RevokedIdentityView = v.strictObject({
  id: Id,
  identity: v.string(),
  device_id: v.string(),
  status: v.picklist(["revoked"]),
  revoked_at: IsoTimestamp,
  revoked_certificate_ids: v.array(Id),
});

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

/** The routes of identities: enrolled hosts and their certificates. */
export const identityRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/identities", ({ list, get, act }) => ({
    listCollectorIdentities: list("", "Collector identities, newest first", {
      by: "admin",
      filter: {
        q: v.optional(Identifier(256)),
        status: v.optional(v.picklist(["active", "revoked"], "must be active or revoked")),
        policy_id: v.optional(Id),
        token_id: v.optional(Id),
      },
      returns: ["A page of identities", PageOf(IdentityView)],
      find: (page, { query: { q: text, status, policy_id: policyId, token_id: tokenId } }) =>
        browseIdentities(core, { text, status, policyId, tokenId }, page),
      view: identityView,
    }),

    getCollectorIdentity: get("/:id", "One collector identity", {
      returns: ["The identity", IdentityView],
      handle: async ({ params }) => identityView(await getIdentity(core, params.id)),
    }),

    revokeCollectorIdentity: act(
      "/:id/revoke",
      "Revoke a collector identity and its active certificates; final and idempotent",
      {
        ...reasonBody("host_compromised"),
        returns: ["The revoked identity", RevokedIdentityView],
        handle: async ({ params, body, ...by }) => {
          const change = { identityId: params.id, ...body };
          const { identity, ...revoked } = await revokeIdentity(core, by, change);
          const revokedAt = identity.revokedAt as Date;
          return revokedView({ ...identity, ...revoked, status: "revoked", revokedAt });
        },
      },
    ),

    listCertificates: list("/:id/certificates", "The certificates of an identity, newest first", {
      returns: ["A page of certificates", CertificatePage],
      find: (page, { params }) => browseCertificates(core, params.id, page),
      view: (row) => certificateView({ ...row, status: certificateStatus(row, core.clock.now()) }),
    }),
  }));

/** The routes of certificates, whoever has them. */
export const certificateRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/collector/certificates", ({ act }) => ({
    revokeCertificate: act(
      "/:id/revoke",
      "Revoke one certificate; idempotent, lists the identity's other active ones",
      {
        ...reasonBody("key_exposed"),
        returns: ["The revoked certificate", RevokedCertificateView],
        handle: async ({ params, body, ...by }) => {
          const change = { certificateId: params.id, ...body };
          const { certificate, ...others } = await revokeCertificate(core, by, change);
          const revokedAt = certificate.revokedAt as Date;
          return revokedCertificateView({
            ...certificate,
            ...others,
            status: "revoked",
            revokedAt,
          });
        },
      },
    ),
  }));

const identityOf = viewOf(IdentityView);
const revokedView = viewOf(RevokedIdentityView);
const revokedCertificateView = viewOf(RevokedCertificateView);
const certificateView = viewOf(CertificateView);

const identityView = (row: IdentityRow) => {
  const { lastAuthFailureAt: at, lastAuthFailureReason: reason } = row;
  return identityOf({
    ...row,
    status: row.revokedAt === null ? "active" : "revoked",
    lastAuthFailure: at !== null && reason !== null ? { at, reason } : null,
  });
};
