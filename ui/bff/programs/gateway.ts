import { LRUCache } from "lru-cache";
import { sha256 } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import { formBytesMax } from "#kit/form.ts";
import { appliedSetBytesMax } from "#proto/applied-set/applied-set.ts";
import { inventoryBytesMax } from "#proto/inventory/inventory.ts";
import type { CoreCall, CoreClient } from "../core-client.ts";
import { forwardRequest, forwardResponse } from "../forward.ts";
import { createRefusalLimit } from "../limit-address.ts";
import { WebProblem } from "../problems.ts";
import { readRequestBody } from "../read-request.ts";
import type { Handler, WebContext } from "../request.ts";

/** An API of core that programs reach through web, so that a deployment has one public address. */
interface ProgramApi {
  /** The paths that web forwards, except those of `internal`. */
  paths: RegExp;
  /** Routes for collectors and web itself, which call core directly. */
  internal?: RegExp;
  methods: readonly NonNullable<CoreCall["method"]>[];
  /** Says which bearer token a request needs. */
  tokenHint: string;
  /** A path that every authenticated caller may read. */
  readablePath: string;
}

/** A request of a program, with its own bearer token. */
type ProgramCall = Required<Pick<CoreCall, "method" | "path" | "authorization">>;

const methods = ["GET", "POST", "PUT", "DELETE"] as const;

const v1: ProgramApi = {
  // The hour of a statement has colons.
  paths: /^\/v1(\/([A-Za-z0-9._~:-]|%3[Aa])+)+$/,
  internal:
    /^\/v1\/(collector\/(enroll|renew|heartbeat|config\/desired|diag)|operator\/(sign-ins|sign-outs|provider-logouts|authorizations|devices|tokens))(\/|$)/,
  methods,
  tokenHint: "Send a bearer token: svc-admin login",
  readablePath: "/v1/whoami",
};

const scim: ProgramApi = {
  paths: /^\/scim\/v2(\/([A-Za-z0-9._~:-]|%3[Aa])+)+\/?$/,
  methods: [...methods, "PATCH"],
  tokenHint: "Send the token of SVC_DIRECTORY_SCIM_TOKEN as bearer token",
  readablePath: "/scim/v2/ServiceProviderConfig",
};

/** Routes that core authenticates by something else than a bearer token, or not at all. */
const exchangePath = "/v1/operator/token-exchange";
const openPaths: readonly string[] = ["/v1/openapi.json", exchangePath];
const bearerPattern = /^Bearer [A-Za-z0-9._~+/=-]{1,4096}$/i;
/** Equal to core's own limits. */
const bodyBytesMax = 1024 * 1024;
const returnedHeaders = ["location", "www-authenticate", "allow"];

/**
 * Creates the handlers of `/v1/*` for programs and `/scim/*` for the identity provider. They send the caller's bearer token and no cookie; core
 * authenticates. They throw 401 `unauthenticated` without a token, and 404 `not_found` for other paths. `/v1` throws 429 `rate_limited` for an
 * address after core rejected too many of its workload tokens. `/scim` limits no address: only core knows whether a token is valid, and behind
 * an edge a valid one may share the address of an attacker's.
 */
export const createGateways = (core: CoreClient, clock: Clock): { v1: Handler; scim: Handler } => {
  const admitBody = createAdmitBody(core, clock);
  const exchanges = createRefusalLimit(clock);

  const forwardAdmitted = async (c: WebContext, api: ProgramApi) => {
    const call = callOf(c, api);
    const refusal = await admitBody(c, call, api.readablePath);
    return refusal ?? forward(c, core, call, bodyBytesMaxOf(pathOf(c)));
  };

  const exchangeToken = async (c: WebContext) => {
    const call = callOf(c, v1);
    const remoteAddress = c.get("remoteAddress");
    exchanges.check(remoteAddress);
    const response = await forward(c, core, call, formBytesMax);
    if (response.status === 400) exchanges.recordRefusal(remoteAddress);
    return response;
  };

  return {
    v1: (c) => (pathOf(c) === exchangePath ? exchangeToken(c) : forwardAdmitted(c, v1)),
    scim: (c) => forwardAdmitted(c, scim),
  };
};

/** How long web accepts bodies with a token that core accepted; core authenticates each request as well. */
const acceptedMs = 60_000;
const tokensMax = 1_000;

/**
 * Creates the check of a bearer token before web reads a body. Only core can verify it: web sends the token with a `GET` of `readablePath`. The
 * check returns null if core accepts the caller, else core's response.
 */
const createAdmitBody = (core: CoreClient, clock: Pick<Clock, "monotonic">) => {
  const accepted = new LRUCache<string, number>({ max: tokensMax });
  return async (
    c: WebContext,
    { method, authorization }: ProgramCall,
    readablePath: string,
  ): Promise<Response | null> => {
    if (method === "GET" || c.req.header("content-length") === "0") return null;
    const token = `${readablePath} ${(await sha256(authorization)).toHex()}`;
    if ((accepted.get(token) ?? 0) > clock.monotonic()) return null;
    const response = await core.call({
      path: readablePath,
      authorization,
      requestId: c.get("requestId"),
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

const pathOf = (c: WebContext): string => new URL(c.req.url).pathname;

/** Returns the call of core for a request to an API. */
const callOf = (
  c: WebContext,
  { paths, internal, methods: allowed, tokenHint }: ProgramApi,
): ProgramCall => {
  const { pathname, search } = new URL(c.req.url);
  if (!paths.test(pathname) || hasDots(pathname) || internal?.test(pathname))
    throw new WebProblem("not_found", { detail: "No such path" });
  const authorization = c.req.header("authorization") ?? "";
  if (!openPaths.includes(pathname) && !bearerPattern.test(authorization))
    throw new WebProblem("unauthenticated", { detail: tokenHint });
  const method = allowed.find((name) => name === c.req.method);
  if (method !== undefined) return { method, path: `${pathname}${search}`, authorization };
  c.header("Allow", allowed.join(", "));
  throw new WebProblem("method_not_allowed", { extensions: { allowed_methods: allowed } });
};

const hasDots = (pathname: string): boolean =>
  pathname.split("/").some((segment) => /^\.+$/.test(segment));

const bodyBytesMaxOf = (pathname: string): number => {
  if (pathname === "/v1/collector/inventory") return inventoryBytesMax;
  return pathname.startsWith("/v1/collector/applied-sets/") ? appliedSetBytesMax : bodyBytesMax;
};

const forward = async (
  c: WebContext,
  core: CoreClient,
  call: ProgramCall,
  bytesMax: number,
): Promise<Response> => {
  const body = call.method === "GET" ? new Uint8Array() : await readRequestBody(c, bytesMax);
  const contentType = c.req.header("content-type") ?? "";
  const response = await forwardRequest(c, core, {
    ...call,
    ...(body.length === 0 ? {} : { body, contentType }),
    ifMatch: c.req.header("if-match"),
  });
  return forwardResponse(c, response, returnedHeaders);
};
