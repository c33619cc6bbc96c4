import { TimeSpan } from "oslo";
import { CookieController, parseCookies } from "oslo/cookie";
import { base64url } from "oslo/encoding";
import type { Entropy } from "#kit/entropy.ts";
import type { WebConfig } from "./config.ts";

/** One cookie of web. The only file that imports oslo. */
export type WebCookie = ReturnType<typeof createCookie>;

/** Returns the names in a `Cookie` header with this prefix, in its order: the oldest first (RFC 6265, 5.4). */
export const cookieNames = (header: string | undefined, prefix: string): string[] =>
  pairsOf(header)
    .filter((pair) => pair.startsWith(prefix) && pair.includes("="))
    .map((pair) => pair.slice(0, pair.indexOf("=")));

/**
 * Splits exactly as RFC 6265, 4.2.1 joins. Trimming more would be a hole: a no-break space before a name makes another cookie, to which
 * browsers do not apply the rules of `__Host-`.
 */
const pairsOf = (header = ""): string[] => header.split(/; */);

type Transport = Pick<WebConfig, "secure">;

/** Returns the name of a cookie: on https with `__Host-`, which no other host can set, or `__Secure-` for a path of its own. */
export const cookieName = ({ secure }: Transport, name: string, path: string): string => {
  if (!secure) return name;
  return path === "/" ? `__Host-${name}` : `__Secure-${name}`;
};

/** Creates a cookie of this name, path and lifetime: HttpOnly, SameSite=Lax, and `Secure` on https. */
export const createCookie = (
  config: Transport,
  options: { name: string; path: string; ttlSeconds: number },
) => {
  const { path, ttlSeconds } = options;
  const { secure } = config;
  const name = cookieName(config, options.name, path);
  const controller = new CookieController(
    name,
    { httpOnly: true, sameSite: "lax", secure, path },
    { expiresIn: new TimeSpan(ttlSeconds, "s") },
  );
  return {
    /** Returns the `Set-Cookie` header that sets it for its lifetime. */
    set: (value: string): string => controller.createCookie(value).serialize(),
    /** Returns the `Set-Cookie` header that removes it. */
    clear: (): string => controller.createBlankCookie().serialize(),
    /** Returns its value in a `Cookie` header; null if it is missing or cannot be decoded. */
    read: (header: string | undefined): string | null => {
      // oslo decodes every cookie of the header and throws at the first invalid one, so it gets only this one.
      const pair = pairsOf(header).find((text) => text.startsWith(`${name}=`));
      try {
        return (pair && parseCookies(pair).get(name)) || null;
      } catch {
        return null;
      }
    },
  };
};

/** Returns 256 random bits as 43 characters of base64url: for states, nonces, PKCE verifiers and session ids. */
export const randomToken = (entropy: Entropy): string =>
  base64url.encode(entropy.bytes(32), { includePadding: false });
