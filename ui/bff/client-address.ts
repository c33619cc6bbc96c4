import * as v from "valibot";
import { addressAllowed } from "#kit/address.ts";

const Address = v.pipe(v.string(), v.ip());
/** Azure's gateway and Caddy's `{remote}` write the port too: `203.0.113.7:51234`, `[2001:db8::1]:443`. */
const withPort = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/;

/**
 * Returns the address of the client: the peer's, unless that is a proxy of `trusted`. Then it is the last address of `X-Forwarded-For` that
 * is not a trusted proxy's; each proxy appends the address that it sees, and what is before can be anybody's. Without the header, or when
 * an entry on the way is no address with or without a port, it is the last that is certain.
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
    const before = v.safeParse(Address, bracketed ?? plain);
    if (!before.success) return address;
    address = before.output;
  }
  return address;
};

/** Whether an address is that of a trusted proxy. */
export const isTrustedProxy = (trusted: readonly string[], address: string): boolean =>
  trusted.length > 0 && addressAllowed(trusted, address);
