import { readBytes } from "../../../kit/bytes.ts";
import type { CoreCall, CoreClient } from "../core-client.ts";
import { WebProblem } from "../problems.ts";
import type { Handler, WebContext } from "../request.ts";
import type { ExchangeLimit } from "./limit-address.ts";

/** Routes of core that are not for operators: collectors and web itself call core directly. */
const notForwarded =
  /^\/v1\/(collector\/(enroll|renew|heartbeat|config\/desired)|operator\/(sign-ins|authorizations|devices|tokens))(\/|$)/;
/** Core authenticates these by something else, or not at all. */
const exchangePath = "/v1/operator/token-exchange";
const openPaths: readonly string[] = ["/v1/openapi.json", exchangePath];
const pathPattern = /^\/v1(\/[A-Za-z0-9._~-]+)+$/;
const bearerPattern = /^Bearer [A-Za-z0-9._~+/=-]{1,4096}$/i;
const queryLengthMax = 8192;
/** As core's own limit. */
const bodyBytesMax = 1024 * 1024;
const methods = ["GET", "POST", "PUT", "DELETE"] as const;
const scimPathPattern = /^\/scim\/v2(\/([A-Za-z0-9._~:-]|%3[Aa])+)+$/;
const scimMethods = [...methods, "PATCH"] as const;
const returnedHeaders = [
  "content-type",
  "location",
  "content-disposition",
  "etag",
  "retry-after",
  "www-authenticate",
  "allow",
];

/**
 * Forwards `/v1` of operators for programs, so that a deployment has one public address: the program's bearer token and nothing of a
 * browser, no cookie. Core authenticates. Throws 401 `unauthenticated` without a token, 404 `not_found` for other routes, 429
 * `rate_limited` for an address whose tokens of workloads core refused.
 */
export const createGateway =
  (core: CoreClient, exchanges: ExchangeLimit): Handler =>
  async (c) => {
    const { pathname, search } = new URL(c.req.url);
    if (!pathPattern.test(pathname) || hasDots(pathname) || notForwarded.test(pathname)) throw noSuchPath();
    if (search.length > queryLengthMax) throw new WebProblem("uri_too_long");
    const authorization = c.req.header("authorization") ?? "";
    if (!openPaths.includes(pathname) && !bearerPattern.test(authorization))
      throw new WebProblem("unauthenticated", { detail: "Send a bearer token: svc-admin login" });
    const method = methodOf(c, methods);
    const remoteAddress = c.get("remoteAddress");
    const retryAfterSeconds = pathname === exchangePath ? exchanges.retryAfterSeconds(remoteAddress) : null;
    if (retryAfterSeconds !== null)
      throw new WebProblem("rate_limited", { detail: "Too many refused tokens of this address", retryAfterSeconds });
    const path = `${pathname.slice("/v1".length)}${search}`;
    return forward(c, core, { method, path, authorization }, (status) => {
      if (pathname === exchangePath && status === 400) exchanges.refused(remoteAddress);
    });
  };

/**
 * Forwards `/scim/v2` for the identity provider, as `createGateway` does for programs. Core alone knows whether the token is valid: no
 * address is refused, because a valid token may come from the address of an attacker, such as an edge's.
 */
export const createScimGateway =
  (core: CoreClient): Handler =>
  async (c) => {
    const { pathname, search } = new URL(c.req.url);
    if (!scimPathPattern.test(pathname) || hasDots(pathname)) throw noSuchPath();
    if (search.length > queryLengthMax) throw new WebProblem("uri_too_long");
    const authorization = c.req.header("authorization") ?? "";
    if (!bearerPattern.test(authorization))
      throw new WebProblem("unauthenticated", { detail: "Send the token of SVC_DIRECTORY_SCIM_TOKEN as bearer token" });
    const method = methodOf(c, scimMethods);
    return forward(c, core, { method, path: `${pathname}${search}`, isAtRoot: true, authorization });
  };

const noSuchPath = () => new WebProblem("not_found", { detail: "No such path" });

const hasDots = (pathname: string): boolean => pathname.split("/").some((part) => /^\.+$/.test(part));

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
  onStatus: (status: number) => void = () => undefined,
): Promise<Response> => {
  const body = await readBytes(c.req.raw.body ?? [], bodyBytesMax);
  if (body === null) throw new WebProblem("payload_too_large");
  const contentType = c.req.header("content-type");
  const ifNoneMatch = c.req.header("if-none-match");
  const response = await core.call({
    ...call,
    accept: c.req.header("accept") ?? "*/*",
    requestId: c.get("requestId"),
    ...(body.length === 0 ? {} : { body, contentType: contentType ?? "" }),
    ...(ifNoneMatch === undefined ? {} : { ifNoneMatch }),
    signal: c.req.raw.signal,
  });
  onStatus(response.status);
  const answer = new Headers();
  for (const name of returnedHeaders) {
    const value = response.headers.get(name);
    if (value !== null) answer.set(name, value);
  }
  return c.newResponse(response.body, response.status as 200, Object.fromEntries(answer));
};
