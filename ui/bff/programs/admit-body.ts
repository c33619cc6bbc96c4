import { LRUCache } from "lru-cache";
import { sha256 } from "../../../kit/bytes.ts";
import type { Clock } from "../../../kit/clock.ts";
import type { CoreCall, CoreClient } from "../core-client.ts";
import type { WebContext } from "../request.ts";
import { returned } from "./gateway.ts";

/** Returns null if core accepts the caller of a request with a body, which has not been read; else core's refusal. */
export type AdmitBody = (
  c: WebContext,
  call: Required<Pick<CoreCall, "method" | "path" | "authorization">> & Pick<CoreCall, "isAtRoot">,
) => Promise<Response | null>;

/** A token that core accepted may send bodies for this time; core authenticates each request as well. */
const acceptedMs = 60_000;
const tokensMax = 1_000;

/**
 * Creates the check of a bearer token before web reads a body. Core alone can verify it: web sends the token with a `GET` of `path`, which
 * any caller of the API may call.
 */
export const createAdmitBody = (core: CoreClient, clock: Pick<Clock, "monotonic">): AdmitBody => {
  const accepted = new LRUCache<string, number>({ max: tokensMax });
  return async (c, { method, path, isAtRoot = false, authorization }) => {
    if (method === "GET" || c.req.header("content-length") === "0") return null;
    const token = `${path} ${(await sha256(authorization)).toHex()}`;
    if ((accepted.get(token) ?? 0) > clock.monotonic()) return null;
    const requestId = c.get("requestId");
    const response = await core.call({
      path,
      isAtRoot,
      authorization,
      requestId,
      signal: c.req.raw.signal,
    });
    // 403 has authenticated a caller who lacks the scope of this path.
    if (response.status !== 200 && response.status !== 403) return returned(c, response);
    await response.body?.cancel();
    accepted.set(token, clock.monotonic() + acceptedMs);
    return null;
  };
};
