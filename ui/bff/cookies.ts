import { TimeSpan } from "oslo";
import { CookieController, parseCookies } from "oslo/cookie";
import { base64url } from "oslo/encoding";
import type { Entropy } from "../../kit/entropy.ts";

/** One cookie of ours: HttpOnly, SameSite=Lax, `Secure` where browsers come by https. The only file that imports oslo. */
export interface WebCookie {
  /** The value of a `Set-Cookie` header that sets it for its lifetime. */
  set(value: string): string;
  /** The value of a `Set-Cookie` header that removes it. */
  clear(): string;
  /** Its value in a `Cookie` header; null when it is not there or not readable. */
  read(header: string | undefined): string | null;
}

/** The names in a `Cookie` header that begin so, in its order: the one set first comes first (RFC 6265, 5.4). */
export const cookieNames = (header: string | undefined, prefix: string): string[] =>
  pairsOf(header)
    .filter((pair) => pair.startsWith(prefix) && pair.includes("="))
    .map((pair) => pair.slice(0, pair.indexOf("=")));

/**
 * Split as RFC 6265, 4.2.1 joins them and no more: a no-break space before the name makes another cookie, to which browsers do not apply
 * the prefix's rules, so that any host of the domain can set it.
 */
const pairsOf = (header = ""): string[] => header.split(/; */);

/** Makes a cookie of this name, path and lifetime. */
export const createCookie = (options: {
  name: string;
  path: string;
  secure: boolean;
  ttlSeconds: number;
}): WebCookie => {
  const { name, path, secure, ttlSeconds } = options;
  const controller = new CookieController(
    name,
    { httpOnly: true, sameSite: "lax", secure, path },
    { expiresIn: new TimeSpan(ttlSeconds, "s") },
  );
  return {
    set: (value) => controller.createCookie(value).serialize(),
    clear: () => controller.createBlankCookie().serialize(),
    read: (header) => {
      // oslo decodes every cookie of the header and throws at the first bad one, which need not be ours.
      const pair = pairsOf(header).find((text) => text.startsWith(`${name}=`));
      try {
        return (pair && parseCookies(pair).get(name)) || null;
      } catch {
        return null;
      }
    },
  };
};

/** 256 random bits as 43 characters of base64url: states, nonces, PKCE verifiers, session ids. */
export const randomToken = (entropy: Entropy): string => base64url.encode(entropy.bytes(32), { includePadding: false });
