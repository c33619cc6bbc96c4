import type { IncomingHttpHeaders } from "node:http2";
import { isLoopbackHost } from "#kit/confidential-url.ts";

/** Returns why the headers of a request forbid it, or undefined. */
export type CallerCheck = (headers: IncomingHttpHeaders) => string | undefined;

const loopbackAddress = /^(?:(?:::ffff:)?127\.|::1$)/;

/**
 * Creates the check that rejects requests of web pages in a browser on this machine: those with an `Origin`; and, on a listener with a loopback
 * address or `allowedHosts`, those for another host (DNS rebinding: a page's own name that resolves to 127.0.0.1). Senders of telemetry send no
 * `Origin`, and name the host that they connect to.
 */
export const createCallerCheck = (
  boundAddress: string,
  allowedHosts: readonly string[],
): CallerCheck => {
  const checksHost = loopbackAddress.test(boundAddress) || allowedHosts.length > 0;
  const allowed = new Set(allowedHosts.map((host) => host.toLowerCase()));
  const isAllowed = (authority: string): boolean => {
    const host = hostOf(authority);
    return isLoopbackHost(host) || allowed.has(host.replace(/^\[|\]$/g, ""));
  };
  return (headers) => {
    if (headers.origin !== undefined) return "requests of web pages are refused";
    const named = [headers[":authority"], headers.host].filter(
      (authority) => authority !== undefined,
    );
    return checksHost && !named.every(isAllowed)
      ? "the request is for another host; add its name to allowed_hosts of this listener"
      : undefined;
  };
};

/** Returns the host of `host[:port]` in lowercase, without a final dot; empty for anything else. */
const hostOf = (authority: string): string =>
  /^(\[[\da-f:.]+\]|[\w.-]+?)\.?(?::\d{1,5})?$/i.exec(authority)?.[1]?.toLowerCase() ?? "";
