import { sha256 } from "../../kit/bytes.ts";
import type { CoreConfig } from "../config/core-config.ts";
import type { HttpContext } from "../http/request.ts";
import type { Guard } from "../http/route.ts";
import { Problem } from "../problems.ts";

type OpsConfig = CoreConfig["ops"];

const loopback = /^(?:(?:::ffff:)?127(?:\.\d{1,3}){3}|::1)$/i;

/** Whether a proxy forwarded the request: one on this machine makes every caller look local (I8). */
const isForwarded = (headers: Headers): boolean =>
  [...headers.keys()].some(
    (name) => name === "forwarded" || name === "via" || name.startsWith("x-forwarded-"),
  );

/**
 * Returns why a caller has no ops access, or undefined if it has (docs/operate.md). A configured bearer token decides alone; without one,
 * only loopback is trusted, and only if the configuration allows it.
 */
const opsRefusal = async (
  { bearerToken, trustLoopback }: OpsConfig,
  c: HttpContext,
): Promise<Problem | undefined> => {
  if (bearerToken !== null) {
    const received = /^Bearer (\S+)$/i.exec(c.req.header("authorization") ?? "")?.[1];
    return received !== undefined && (await isSame(received, bearerToken.reveal()))
      ? undefined
      : new Problem("unauthenticated");
  }
  const { remoteAddress } = c.get("peer");
  const trusted = trustLoopback && loopback.test(remoteAddress) && !isForwarded(c.req.raw.headers);
  return trusted ? undefined : new Problem("ops_access_denied");
};

/** Compares digests, so that the duration does not depend on the secret. */
const isSame = async (given: string, expected: string): Promise<boolean> => {
  const [a, b] = await Promise.all([sha256(given), sha256(expected)]);
  return a.every((byte, index) => byte === b[index]);
};

/** Admits callers with ops access: 401 `unauthenticated` where a bearer token is configured, else 403 `ops_access_denied`. */
export const opsOnly = (config: OpsConfig): Guard<null> => ({
  describe: { kind: "ops" },
  admit: async (c) => {
    const refusal = await opsRefusal(config, c);
    if (refusal) throw refusal;
    return null;
  },
});

/** Admits anyone, and reports whether the caller has ops access. */
export const openWithOpsDetail = (config: OpsConfig): Guard<{ opsAccess: boolean }> => ({
  describe: { kind: "open" },
  admit: async (c) => ({ opsAccess: (await opsRefusal(config, c)) === undefined }),
});
