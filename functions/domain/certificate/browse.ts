import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { type CertificateRow, listCertificates } from "../../store/certificates.ts";
import { findIdentity, type IdentityFilter, type IdentityRow, listIdentities } from "../../store/identities.ts";
import type { Page, Paged } from "../../store/page.ts";

/** One page of the identities, newest first. */
export const browseIdentities = (
  { db }: Pick<Core, "db">,
  filter: IdentityFilter,
  page: Page,
): Promise<Paged<IdentityRow>> => listIdentities(db, filter, page);

/** The identity. 404 `not_found`. */
export const getIdentity = async ({ db }: Pick<Core, "db">, id: string): Promise<IdentityRow> => {
  const identity = await findIdentity(db, id);
  if (identity === undefined) throw new Problem("not_found");
  return identity;
};

/** One page of an identity's certificates, newest first. 404 `not_found` for an identity that is not there. */
export const browseCertificates = async (
  core: Pick<Core, "db">,
  identityId: string,
  page: Page,
): Promise<Paged<CertificateRow>> => {
  await getIdentity(core, identityId);
  return listCertificates(core.db, identityId, page);
};
