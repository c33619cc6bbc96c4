import * as v from "valibot";
import { CertificatePage } from "../../../../proto/operator/certificate.ts";
import type { Core } from "../../../core.ts";
import { browseCertificates } from "../../../domain/certificate/identities.ts";
import { scope } from "../../../http/guards.ts";
import { createList, listFields } from "../../../http/list.ts";
import { route } from "../../../http/route.ts";
import type { CertificateRow } from "../../../store/certificate/certificates.ts";
import { IdParams } from "../../shapes.ts";
import { certificateView } from "../certificates/certificate.ts";

/** `GET /v1/collector/identities/{id}/certificates`: a host's certificates, newest first. */
export const listCertificatesRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "certificates");
  return route({
    method: "GET",
    path: "/v1/collector/identities/:id/certificates",
    operationId: "listCertificates",
    summary: "The certificates of an identity, newest first",
    guard: scope(core, "audit"),
    params: IdParams,
    query: v.strictObject(listFields),
    replies: { 200: { description: "A page of certificates", schema: CertificatePage } },
    problems: ["not_found"],
    handle: async ({ params, query }) => {
      const view = (row: CertificateRow) => certificateView(row, core.clock.now());
      return list(query, (page) => browseCertificates(core, params.id, page), view);
    },
  });
};
