import { Hono, type MiddlewareHandler } from "hono";
import { etag } from "hono/etag";
import { routePath } from "hono/route";
import { secureHeaders } from "hono/secure-headers";
import { withTimeout } from "#kit/clock.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { createRequestBodies } from "#kit/request-bodies.ts";
import { requestIdOf } from "#kit/request-id.ts";
import { requestPath } from "#kit/request-path.ts";
import { clientAddress, isTrustedProxy } from "./client-address.ts";
import { type CoreClient, createCoreClient } from "./core-client.ts";
import { deviceLimit, limitAddress } from "./limit-address.ts";
import { createPages, pageLinksOf } from "./pages.ts";
import { createProblemRenderer, WebProblem } from "./problems.ts";
import {
  createAskPerson,
  createAuthorize,
  createDevicePages,
  formTargetOf,
} from "./programs/consent.ts";
import { createGateways } from "./programs/gateway.ts";
import { createSealedCodes, createTokenEndpoints } from "./programs/token.ts";
import { createProxy, proxiedPath, proxiedRoutes } from "./proxy.ts";
import { isNavigation, showRefusal } from "./refusal-page.ts";
import type { Handler, WebContext, WebEnv } from "./request.ts";
import { createSessions } from "./session.ts";
import { callbackPath } from "./sign-in/authorization-code.ts";
import { backchannelLogoutPath } from "./sign-in/backchannel-logout.ts";
import { authorizePath, devicePath } from "./sign-in/fresh-sign-in.ts";
import { findPersonBySubject } from "./sign-in/people.ts";
import { createSignIn } from "./sign-in/routes.ts";
import { createSessionRoute, createSignedIn } from "./signed-in.ts";
import type { Web } from "./web.ts";

/** The options that differ between a listener and a test. */
interface WebAppOptions {
  /** Returns the direct remote address of a request. */
  remoteAddressOf(c: WebContext): string;
  /** Reports whether web has been told to stop; by default it never is. */
  isStopping?(): boolean;
}

/** Other sites may link to the sign-in; the provider redirects to the callback, which `state` protects, and sends signed logout tokens. */
const crossSitePaths: readonly string[] = ["/api/auth/login", callbackPath, backchannelLogoutPath];
/** Pages with forms, on which a GET changes nothing. People reach them by a link, or from the provider, which is another site. */
const formPaths: readonly string[] = [authorizePath, devicePath];

/**
 * Creates web's HTTP app (docs/deploy.md). Order: request id, headers of every response, origin check, routes. One translator renders
 * every error.
 */
export const createWebApp = (
  web: Web,
  { remoteAddressOf, isStopping = () => false }: WebAppOptions,
): Hono<WebEnv> => {
  const { clock, config, log } = web;
  const app = new Hono<WebEnv>({ getPath: requestPath });
  const core = createCoreClient(web);
  app.use(serveRequests(web, createAddressOf(web, remoteAddressOf)));
  app.use(createSecureHeaders(config));
  app.use(limitQuery);
  for (const path of ["/api/*", ...formPaths])
    app.use(path, async (c, next) => {
      if (!crossSitePaths.includes(c.req.path)) checkOrigin(c, config.origin);
      await next();
    });
  const { routes, pages } = createRoutes(web, { core, isStopping });
  mount(app, routes);
  const gateways = createGateways(core, clock);
  app.all("/v1/*", gateways.v1);
  app.all("/scim/*", gateways.scim);
  // Programs call these: a redirect to the sign-in page would not help them.
  for (const path of ["/api/*", "/oauth/*", "/.well-known/*"])
    app.all(path, () => {
      throw new WebProblem("not_found", { detail: "No such path" });
    });
  app.get("*", etag(), pages.asset, pages.application);

  const render = createProblemRenderer(log);
  // Not thrown: an error thrown in notFound would bypass the middleware above.
  app.notFound((c) => render(new WebProblem("not_found", { detail: "No such path" }), c));
  app.onError(render);
  return app;
};

/** Returns a function that finds the client's address. Warns once about a header from an untrusted peer. */
const createAddressOf = (
  { config, log }: Web,
  remoteAddressOf: WebAppOptions["remoteAddressOf"],
) => {
  let isWarned = false;
  return (c: WebContext) => {
    const peer = remoteAddressOf(c);
    const forwardedFor = c.req.header("x-forwarded-for");
    if (forwardedFor !== undefined && !isWarned && !isTrustedProxy(config.trustedProxies, peer)) {
      isWarned = true;
      const text =
        "X-Forwarded-For of a peer that is not in SVC_TRUSTED_PROXIES: all its clients count as one";
      log.warn({ peer }, text);
    }
    return clientAddress(config.trustedProxies, { peer, forwardedFor });
  };
};

/** Sets each request's id, address and span, and each response's headers; replaces a problem by a page, and logs the request. */
const serveRequests = (
  { clock, entropy, log, tracer, ui }: Web,
  addressOf: (c: WebContext) => string,
): MiddlewareHandler<WebEnv> => {
  const bodies = createRequestBodies(clock);
  const links = pageLinksOf(ui);
  return async (c, next) => {
    const requestId = requestIdOf(c.req.header("x-request-id"), { clock, entropy });
    c.set("requestId", requestId);
    c.set("remoteAddress", addressOf(c));
    c.set("bodies", bodies);
    c.set("links", links);
    const startedAt = clock.monotonic();
    // A browser's own trace is not continued: anybody could choose what is recorded.
    const { method, path } = c.req;
    await tracer.serve(
      {
        name: method,
        kind: "server",
        facts: { "http.request.method": method, "svc.request_id": requestId },
      },
      undefined,
      async (span) => {
        await next();
        span.rename(`${method} ${routePath(c)}`);
        span.set({ "http.route": routePath(c), "http.response.status_code": c.res.status });
        if (c.res.status >= 500) span.fail();
      },
    );
    if (isNavigation(c)) await showRefusal(c);
    const { headers, status } = c.res;
    headers.set("X-Request-Id", requestId);
    if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store");
    const seconds = (clock.monotonic() - startedAt) / 1000;
    log.debug({ request_id: requestId, method, path, status, seconds }, "request");
  };
};

const checkTimeoutMs = 2000;

/** `GET /healthz`: the process is up. Checks no dependency. Has the same form as core's. */
const health: Handler = (c) => c.json({ status: "ready", checks: [] });

/**
 * `GET /readyz`: 503 once web is stopping, or when the database does not answer a sign-in's query or core does not answer within two
 * seconds. Needs no credentials, so details are only logged.
 */
const createReadiness = (
  { config, db, clock, log }: Web,
  { core, isStopping }: { core: CoreClient; isStopping(): boolean },
): Handler => {
  const passes = async (name: string, check: Promise<unknown>) => {
    const passed = await withTimeout(checkTimeoutMs, clock, check).then(
      () => true,
      (err: unknown) => {
        log.warn({ check: name, err }, "readiness check failed");
        return false;
      },
    );
    return { name, passed };
  };
  const { tenantId } = config;
  // Needs no credentials, so concurrent requests share one check.
  const check = singleFlight((requestId: string) =>
    Promise.all([
      passes("database", findPersonBySubject(db, { tenantId, subject: "" })),
      // Core answers web itself with 401, which is enough.
      passes(
        "core",
        core.call({ path: "/v1/whoami", requestId }).then((response) => response.body?.cancel()),
      ),
    ]),
  );
  return async (c) => {
    const found = [
      { name: "stopping", passed: !isStopping() },
      ...(await check(c.get("requestId"))),
    ];
    const status = (ready: boolean) => (ready ? "ready" : "not_ready");
    const ready = found.every(({ passed }) => passed);
    const checks = found.map(({ name, passed }) => ({
      name,
      status: status(passed),
      detail: null,
    }));
    return c.json({ status: status(ready), checks }, ready ? 200 : 503);
  };
};

/** Creates web's own routes, and its pages. */
const createRoutes = (
  web: Web,
  { core, isStopping }: { core: CoreClient; isStopping(): boolean },
) => {
  const { config, clock } = web;
  const sessions = createSessions(web);
  const signIn = createSignIn(web, { sessions, core, isStopping });
  const signedIn = createSignedIn(clock, sessions);
  const pages = createPages(web, sessions);
  const askPerson = createAskPerson({ sessions, core, clock });
  const codes = createSealedCodes(web);
  const authorize = createAuthorize(askPerson, codes);
  const device = createDevicePages(askPerson, config.trustedProxies);
  const tokens = createTokenEndpoints(web, { core, codes });
  const routes: readonly Route[] = [
    ["GET", "/healthz", health],
    ["GET", "/readyz", createReadiness(web, { core, isStopping })],
    ["GET", "/login", pages.login],
    ["GET", "/api/auth/login", signIn.begin],
    ["GET", callbackPath, signIn.complete],
    ["POST", "/api/auth/logout", signIn.end],
    ["POST", backchannelLogoutPath, signIn.endByProvider],
    ["GET", "/api/session", signedIn(createSessionRoute(web, { sessions, core }))],
    ["GET", authorizePath, authorize.ask],
    ["POST", authorizePath, authorize.decide],
    ["GET", devicePath, device.ask],
    ["POST", devicePath, device.decide],
    ["POST", "/oauth/device_authorization", limitAddress(clock, deviceLimit, tokens.device)],
    ["POST", "/oauth/token", tokens.token],
    ...proxiedRoutes.map(
      ([method, path, needed = method === "GET" ? "any" : "recent"]): Route => [
        method,
        proxiedPath(path),
        signedIn(createProxy({ sessions, core }, path), needed),
      ],
    ),
  ];
  return { routes, pages };
};

/** Longer than any query of web's pages, and than the codes of identity providers. */
const queryLengthMax = 8192;

const limitQuery: MiddlewareHandler<WebEnv> = async (c, next) => {
  if (new URL(c.req.url).search.length > queryLengthMax) throw new WebProblem("uri_too_long");
  await next();
};

/**
 * The headers of every response (A7): no inline script or style, no frames, nothing from another origin. `Referrer-Policy` is not
 * `no-referrer`, because browsers then send `Origin: null` with a form and the origin check needs the origin.
 */
const createSecureHeaders = ({ secure }: Web["config"]) =>
  secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'"],
      fontSrc: ["'self'"],
      connectSrc: ["'self'"],
      manifestSrc: ["'self'"],
      formAction: ["'self'", formTargetOf],
      baseUri: ["'none'"],
      frameAncestors: ["'none'"],
    },
    referrerPolicy: "same-origin",
    permissionsPolicy: { camera: [], geolocation: [], microphone: [], payment: [], usb: [] },
    strictTransportSecurity: secure && "max-age=31536000",
  });

/**
 * Rejects a request that a page of another origin caused (A5). A method other than GET and HEAD needs this `Origin`, which browsers
 * always send with a POST, PUT or DELETE, and a POST needs a media type. A GET that the browser marks as another site's is rejected as
 * well, except the navigation of a whole tab to a page with a form. Throws 403 `cross_origin_refused`.
 */
const checkOrigin = (c: WebContext, origin: string) => {
  const { method } = c.req;
  const reject = (detail: string): never => {
    throw new WebProblem("cross_origin_refused", { detail });
  };
  if (method === "GET" || method === "HEAD") {
    const site = c.req.header("sec-fetch-site") ?? "none";
    const isTab =
      c.req.header("sec-fetch-mode") === "navigate" &&
      c.req.header("sec-fetch-dest") === "document";
    if (site === "none" || site === "same-origin" || (isTab && formPaths.includes(c.req.path)))
      return;
    reject("The request comes from another site");
  }
  if (c.req.header("origin") !== origin) reject("The Origin header is not this origin");
  if (method === "POST" && !c.req.header("content-type")) reject("A POST needs a Content-Type");
};

type Route = readonly [method: string, path: string, handler: Handler];

/** Registers the routes, and per path a 405 for every other method. */
const mount = (app: Hono<WebEnv>, routes: readonly Route[]) => {
  for (const [method, path, handler] of routes) app.on(method, path, handler);
  for (const path of new Set(routes.map(([, path]) => path))) {
    const methods = routes.filter((route) => route[1] === path).map(([method]) => method);
    app.all(path, (c) => {
      c.header("Allow", methods.join(", "));
      throw new WebProblem("method_not_allowed", { extensions: { allowed_methods: methods } });
    });
  }
};
