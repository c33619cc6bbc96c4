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
    return { edition: "community", status: "ready", detail: "community edition, unlimited" };
  const notReady = (detail: string): LicenseState => ({
    edition: "licensed",
    status: "not_ready",
    detail,
  });
  const claims = await readClaims(source, clock);
  if (typeof claims === "string") return notReady(claims);
  const enrolled = await countCollectors();
  const limit = claims.max_collectors;
  if (enrolled > limit)
    return notReady(`${enrolled} collectors are enrolled, the license covers ${limit}`);
  const until = new Date(claims.exp * 1000).toISOString();
  return {
    edition: "licensed",
    status: "ready",
    detail: `${enrolled} of ${limit} collectors, until ${until}`,
  };
};

const readClaims = async (
  { token, publicKeyPem }: LicenseSource,
  clock: Clock,
): Promise<v.InferOutput<typeof Claims> | string> => {
  try {
    const key = await importSPKI(publicKeyPem, "EdDSA");
    const { payload } = await jwtVerify(token.reveal(), key, {
      algorithms: ["EdDSA"],
      currentDate: new Date(clock.now()),
      requiredClaims: ["exp"],
    });
    const claims = v.safeParse(Claims, payload);
    return claims.success ? claims.output : "the license has no valid max_collectors";
  } catch (cause) {
    if (cause instanceof errors.JWTExpired) return "the license has expired";
    return "the license is not valid: its signature does not verify, or it is not a signed JWT";
  }
};
