import { errors, importSPKI, jwtVerify } from "jose";
import * as v from "valibot";
import type { Clock } from "#kit/clock.ts";
import type { Secret } from "#kit/secret.ts";

/** The configured license: the JWT and the public key of its issuer. */
export interface LicenseSource {
  token: Secret;
  publicKeyPem: string;
}

/** The state of a license. It is only reported: nothing stops working when it is not `ready`. */
interface LicenseState {
  edition: "community" | "licensed";
  status: "ready" | "not_ready";
  detail: string;
}

const Claims = v.object({
  max_collectors: v.pipe(v.number(), v.integer(), v.minValue(1)),
  exp: v.pipe(v.number(), v.integer()),
});

/**
 * Returns the state of the license (docs/operate.md): `community`, unlimited, without one; otherwise by its EdDSA signature, `exp` and
 * `max_collectors`.
 */
export const checkLicense = async (
  source: LicenseSource | null,
  { clock, countCollectors }: { clock: Clock; countCollectors: () => Promise<number> },
): Promise<LicenseState> => {
  if (source === null)
    return { edition: "community", status: "ready", detail: "The community edition has no limit." };
  const notReady = (detail: string): LicenseState => ({
    edition: "licensed",
    status: "not_ready",
    detail,
  });
  const license = await readLicense(source, clock);
  if (!license.ok) return notReady(license.detail);
  const enrolled = await countCollectors();
  const limit = license.claims.max_collectors;
  if (enrolled > limit)
    return notReady(`${enrolled} collectors are enrolled, and the license covers ${limit}.`);
  const until = new Date(license.claims.exp * 1000).toISOString();
  return {
    edition: "licensed",
    status: "ready",
    detail: `It covers ${enrolled} of ${limit} collectors until ${until}.`,
  };
};

type ReadLicense =
  | { ok: true; claims: v.InferOutput<typeof Claims> }
  | { ok: false; detail: string };

const readLicense = async (
  { token, publicKeyPem }: LicenseSource,
  clock: Clock,
): Promise<ReadLicense> => {
  const failed = (detail: string): ReadLicense => ({ ok: false, detail });
  const key = await importSPKI(publicKeyPem, "EdDSA").catch(() => null);
  if (key === null) return failed("The issuer's public key is not an Ed25519 key in PEM.");
  try {
    const { payload } = await jwtVerify(token.reveal(), key, {
      algorithms: ["EdDSA"],
      currentDate: new Date(clock.now()),
      requiredClaims: ["exp"],
    });
    const claims = v.safeParse(Claims, payload);
    if (!claims.success) return failed("It has no valid max_collectors.");
    return { ok: true, claims: claims.output };
  } catch (cause) {
    if (cause instanceof errors.JWTExpired) return failed("It has expired.");
    return failed("Its signature does not verify, or it is not a signed JWT.");
  }
};
