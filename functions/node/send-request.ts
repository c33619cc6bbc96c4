import { type LookupAddress, lookup } from "node:dns";
import * as http from "node:http";
import * as https from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { isPublicAddress } from "#kit/address.ts";
import { type Clock, callAfter } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import { readRetryAfter } from "#kit/retry-after.ts";
import type { SendRequest } from "../domain/watch/deliver.ts";

/** The longest delay that a receiver can demand. */
const retryAfterMsMax = 3_600_000;

/** Reports that the receiver's name resolves to no allowed address. */
class AddressRefused extends Error {
  readonly code = "address_refused";
}

/** The addresses that a request may reach. */
interface Reach {
  allowPrivate: boolean;
  isPlain: boolean;
}

const reaches = ({ allowPrivate, isPlain }: Reach, address: string) =>
  isPublicAddress(address) ? !isPlain : allowPrivate;

/**
 * Resolves a name to its allowed addresses, to which the connection then goes, so that a second answer of the name server has no effect.
 */
const createLookup =
  (reach: Reach, resolve: typeof lookup): LookupFunction =>
  (hostname, options, callback) =>
    resolve(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, "", 0);
      const addresses: LookupAddress[] = found.filter(({ address }) => reaches(reach, address));
      const [first] = addresses;
      if (first === undefined) return callback(new AddressRefused(), "", 0);
      if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });

/**
 * Creates the sender of messages. Follows no redirect, reads no body, uses each connection once, and goes to public addresses only unless the
 * receiver allows others; `http` goes to the others only.
 */
export const createSendRequest =
  ({
    clock,
    msMax,
    resolve = lookup,
  }: {
    clock: Pick<Clock, "now" | "sleep">;
    msMax: number;
    resolve?: typeof lookup;
  }): SendRequest =>
  async ({ url: address, headers, body, allowPrivate }) => {
    const url = new URL(address);
    const reach = { allowPrivate, isPlain: url.protocol === "http:" };
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const retry = (reason: string, afterMs: number | null = null) => ({
      status: "failed" as const,
      reason,
      isFinal: false,
      afterMs,
    });
    // Node does not call the lookup for a literal address.
    if (isIP(host) !== 0 && !reaches(reach, host)) return retry(refused);
    const late = new AbortController();
    const cancel = callAfter(clock, msMax, () => late.abort());
    try {
      const lookup = createLookup(reach, resolve);
      const { status, retryAfter } = await post(url, {
        headers,
        body,
        lookup,
        signal: late.signal,
      });
      if (status >= 200 && status < 300) return { status: "delivered" };
      if (status === 410) return { ...retry("HTTP 410: the receiver is gone"), isFinal: true };
      if (status >= 300 && status < 400) return retry(`HTTP ${status}: redirects are not followed`);
      return retry(`HTTP ${status}`, readRetryAfter(retryAfter, clock.now(), retryAfterMsMax));
    } catch (cause) {
      return retry(late.signal.aborted ? "no response in time" : reasonOf(cause));
    } finally {
      cancel();
    }
  };

const refused = "the receiver's address is not allowed";

const reasonOf = (cause: unknown) => {
  const inner = cause instanceof AggregateError ? cause.errors[0] : cause;
  if (inner instanceof AddressRefused) return refused;
  return `no response: ${errorCode(inner) ?? "connection lost"}`;
};

/** Resolves with the head of the response. */
const post = (
  url: URL,
  {
    body,
    ...options
  }: {
    headers: Readonly<Record<string, string>>;
    body: string;
    lookup: LookupFunction;
    signal: AbortSignal;
  },
): Promise<{ status: number; retryAfter: string | undefined }> =>
  new Promise((resolve, reject) => {
    const { request } = url.protocol === "https:" ? https : http;
    const sent = request(url, { ...options, method: "POST", agent: false }, (response) => {
      resolve({ status: response.statusCode ?? 0, retryAfter: response.headers["retry-after"] });
      response.destroy();
    });
    sent.on("error", reject);
    sent.end(body);
  });
