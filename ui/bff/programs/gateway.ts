import { LRUCache } from "lru-cache";
import { sha256 } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import { formBytesMax } from "#kit/form.ts";
import { appliedSetBytesMax } from "#proto/applied-set/applied-set.ts";
import { inventoryBytesMax } from "#proto/inventory/inventory.ts";
import type { CoreCall, CoreClient } from "../core-client.ts";
import type { RefusalLimit } from "../limit-address.ts";
import { WebProblem } from "../problems.ts";
import { readRequestBody } from "../read-request.ts";
import { forwardResponse, type Handler, type WebContext } from "../request.ts";

/** Returns null if core accepts the caller of a request whose body has not been read; else core's response. */
type AdmitBody = (
  c: WebContext,
  call: Required<Pick<CoreCall, "method" | "path" | "authorization">> & Pick<CoreCall, "isAtRoot">,
) => Promise<Response | null>;

/** How long web accepts bodies with a token that core accepted; core authenticates each request as well. */
const acceptedMs = 60_000;
const tokensMax = 1_000;

/**
 * Creates the check of a bearer token before web reads a body. Only core can verify it: web sends the token with a `GET` of `path`, which is
 * open to every authenticated caller.
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
    if (response.status !== 200 && response.status !== 403)
      return forwardResponse(c, response, returnedHeaders);
    await response.body?.cancel();
    accepted.set(token, clock.monotonic() + acceptedMs);
    return null;
  };
};

/** Routes of core that are not for operators: collectors and web itself call them directly. */
const notForwarded =
  /^\/v1\/(collector\/(enroll|renew|heartbeat|config\/desired|diag)|operator\/(sign-ins|sign-outs|provider-logouts|authorizations|devices|tokens))(\/|$)/;
/** Routes that core authenticates by something else than a bearer token, or not at all. */
const exchangePath = "/v1/operator/token-exchange";
const openPaths: readonly string[] = ["/v1/openapi.json", exchangePath];
/** A path of `/v1`; the hour of a statement has colons. */
const pathPattern = /^\/v1(\/([A-Za-z0-9._~:-]|%3[Aa])+)+$/;
const bearerPattern = /^Bearer [A-Za-z0-9._~+/=-]{1,4096}$/i;
/** Equal to core's own limits. */
const bodyBytesMax = 1024 * 1024;
const bodyBytesMaxOf = (pathname: string) => {
  if (pathname === "/v1/collector/inventory") return inventoryBytesMax;
  return pathname.startsWith("/v1/collector/applied-sets/") ? appliedSetBytesMax : bodyBytesMax;
};
const methods = ["GET", "POST", "PUT", "DELETE"] as const;
const scimPathPattern = /^\/scim\/v2(\/([A-Za-z0-9._~:-]|%3[Aa])+)+\/?$/;
const scimMethods = [...methods, "PATCH"] as const;
const returnedHeaders = [
  "content-type",
  "location",
  "content-disposition",
  "etag",
  "x-generated-at",
  "retry-after",
  "www-authenticate",
  "allow",
  "x-accel-buffering",
];

/**
 * Forwards programs' calls of the operators' `/v1` to core, so that a deployment has one public address. Sends the program's bearer token, and
 * no cookie; core authenticates. Throws 401 `unauthenticated` without a token, 404 `not_found` for other routes, and 429 `rate_limited` for an
 * address after core rejected too many of its workload tokens.
 */
export const createGateway =
  ({
    core,
    admitBody,
    exchanges,
  }: {
    core: CoreClient;
    admitBody: AdmitBody;
    exchanges: RefusalLimit;
  }): Handler =>
  async (c) => {
    const { pathname, search } = new URL(c.req.url);
    if (!pathPattern.test(pathname) || hasDots(pathname) || notForwarded.test(pathname))
      throw noSuchPath();
    const authorization = c.req.header("authorization") ?? "";
    if (!openPaths.includes(pathname) && !bearerPattern.test(authorization))
      throw new WebProblem("unauthenticated", { detail: "Send a bearer token: svc-admin login" });
    const method = methodOf(c, methods);
    const call = { method, path: `${pathname.slice("/v1".length)}${search}`, authorization };
    if (pathname !== exchangePath)
      return (
        (await admitBody(c, { ...call, path: "/whoami" })) ??
        forward(c, core, call, bodyBytesMaxOf(pathname))
      );
    const remoteAddress = c.get("remoteAddress");
    exchanges.check(remoteAddress);
    const response = await forward(c, core, call, formBytesMax);
    if (response.status === 400) exchanges.recordRefusal(remoteAddress);
    return response;
  };

/**
 * Forwards `/scim/v2` for the identity provider, as `createGateway` does for programs. Limits no address: only core knows whether a token is
 * valid, and behind an edge a valid one may share the address of an attacker's.
 */
export const createScimGateway =
  ({ core, admitBody }: { core: CoreClient; admitBody: AdmitBody }): Handler =>
  async (c) => {
    const { pathname, search } = new URL(c.req.url);
    if (!scimPathPattern.test(pathname) || hasDots(pathname)) throw noSuchPath();
    const authorization = c.req.header("authorization") ?? "";
    if (!bearerPattern.test(authorization))
      throw new WebProblem("unauthenticated", {
        detail: "Send the token of SVC_DIRECTORY_SCIM_TOKEN as bearer token",
      });
    const method = methodOf(c, scimMethods);
    const call = { method, path: `${pathname}${search}`, isAtRoot: true, authorization };
    const admitted = await admitBody(c, { ...call, path: "/scim/v2/ServiceProviderConfig" });
    return admitted ?? forward(c, core, call, bodyBytesMax);
  };

const noSuchPath = () => new WebProblem("not_found", { detail: "No such path" });

const hasDots = (pathname: string): boolean =>
  pathname.split("/").some((segment) => /^\.+$/.test(segment));

const methodOf = <Method extends string>(c: WebContext, allowed: readonly Method[]): Method => {
  const method = allowed.find((name) => name === c.req.method);
  if (method !== undefined) return method;
  c.header("Allow", allowed.join(", "));
  throw new WebProblem("method_not_allowed", { extensions: { allowed_methods: allowed } });
};

const forward = async (
  c: WebContext,
  core: CoreClient,
  call: Pick<CoreCall, "method" | "path" | "isAtRoot" | "authorization">,
  bytesMax: number,
): Promise<Response> => {
  const body = call.method === "GET" ? new Uint8Array() : await readRequestBody(c, bytesMax);
  const contentType = c.req.header("content-type");
  const response = await core.call({
    ...call,
    accept: c.req.header("accept") ?? "*/*",
    requestId: c.get("requestId"),
    ...(body.length === 0 ? {} : { body, contentType: contentType ?? "" }),
    ifNoneMatch: c.req.header("if-none-match"),
    ifMatch: c.req.header("if-match"),
    signal: c.req.raw.signal,
  });
  return forwardResponse(c, response, returnedHeaders);
};
