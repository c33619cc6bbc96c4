import * as v from "valibot";
import { addressAllowed } from "#kit/address.ts";

const Address = v.pipe(v.string(), v.ip());
/** Azure's gateway and Caddy's `{remote}` write the port too: `203.0.113.7:51234`, `[2001:db8::1]:443`. */
const withPort = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/;

/**
 * Returns the address of the client: the peer's, unless the peer is a trusted proxy. Then it is the last address of `X-Forwarded-For` that is
 * not a trusted proxy's: each proxy appends the address of its own peer, and the client can forge the entries before. Stops at an entry that is
 * no address, with or without a port, and returns the address after it.
 */
export const clientAddress = (
  trusted: readonly string[],
  { peer, forwardedFor }: { peer: string; forwardedFor: string | undefined },
): string => {
  let address = peer;
  for (const entry of (forwardedFor ?? "").split(",").toReversed()) {
    if (!isTrustedProxy(trusted, address)) return address;
    const text = entry.trim();
    const [, bracketed, plain = text] = withPort.exec(text) ?? [];
    const parsed = v.safeParse(Address, bracketed ?? plain);
    if (!parsed.success) return address;
    address = parsed.output;
  }
  return address;
};

/** Reports whether an address is a trusted proxy's. */
export const isTrustedProxy = (trusted: readonly string[], address: string): boolean =>
  trusted.length > 0 && addressAllowed(trusted, address);
