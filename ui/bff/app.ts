import { Hono } from "hono";
import { uuidv7 } from "../../kit/entropy.ts";
import { isRequestId } from "../../kit/request-id.ts";
import { createCoreClient } from "./core-client.ts";
import { createReadiness, health } from "./ops.ts";
import { checkOrigin } from "./origin-check.ts";
import { createPages } from "./pages.ts";
import { Problem } from "./problems.ts";
import { createProxy, proxiedRoutes } from "./proxy.ts";
import { renderProblem } from "./render-problem.ts";
import type { Handler, WebContext, WebEnv } from "./request.ts";
import { securityHeaders } from "./security-headers.ts";
import { createSessions } from "./session.ts";
import { callbackPath } from "./sign-in/authorization-code.ts";
import { createSignIn } from "./sign-in/routes.ts";
import { createSessionRoute, createSignedIn } from "./signed-in.ts";
import type { Web } from "./web.ts";

/** What differs between a listener and a test. */
export interface AppOptions {
  /** The direct remote address of a request. */
  remoteAddressOf(c: WebContext): string;
}

/** Other sites lead to these: the way to the provider harms nobody, and the way back from it has its own proof, `state`. */
const fromElsewhere: readonly string[] = ["/api/auth/login", callbackPath];

/**
 * Web's HTTP app (contract, section 12). Order: request id, headers of every answer, origin check, routes; every error leaves
 * through one translator.
 */
export const createApp = (web: Web, { remoteAddressOf }: AppOptions): Hono<WebEnv> => {
  const { config, clock, entropy, log } = web;
  const app = new Hono<WebEnv>();
  const sessions = createSessions(web);
  const core = createCoreClient(web);
  const signIn = createSignIn(web, { sessions, core });
  const signedIn = createSignedIn(clock, sessions);
  const session = createSessionRoute(web, { sessions, core });
  const proxy = createProxy({ sessions, core });
  const pages = createPages(web, sessions);

  const fixedHeaders = Object.entries(securityHeaders(config));
  app.use(async (c, next) => {
    const given = c.req.header("x-request-id");
    c.set("requestId", isRequestId(given) ? given : uuidv7({ clock, entropy }));
    c.set("remoteAddress", remoteAddressOf(c));
    const startedAt = clock.monotonic();
    await next();
    const { headers, status } = c.res;
    headers.set("X-Request-Id", c.get("requestId"));
    for (const [name, value] of fixedHeaders) headers.set(name, value);
    if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store");
    const seconds = (clock.monotonic() - startedAt) / 1000;
    log.debug({ request_id: c.get("requestId"), method: c.req.method, path: c.req.path, status, seconds }, "request");
  });
  app.use("/api/*", async (c, next) => {
    if (!fromElsewhere.includes(c.req.path)) checkOrigin(c, config.origin);
    await next();
  });

  mount(app, [
    ["GET", "/healthz", health],
    ["GET", "/readyz", createReadiness(web, core)],
    ["GET", "/login", pages.login],
    ["GET", "/api/auth/login", signIn.begin],
    ["GET", callbackPath, signIn.complete],
    ["POST", "/api/auth/logout", signIn.end],
    ["GET", "/api/session", signedIn(session)],
    ...proxiedRoutes.map(([method, path]) => [method, `/api/core${path}`, signedIn(proxy)] as const),
  ]);
  app.all("/api/*", () => {
    throw new Problem("not_found", { detail: "No such path" });
  });
  app.get("*", pages.rest);

  const render = renderProblem(log);
  // Not thrown: what is thrown there passes by the middleware above.
  app.notFound((c) => render(new Problem("not_found", { detail: "No such path" }), c));
  app.onError(render);
  return app;
};

type Route = readonly [method: string, path: string, handler: Handler];

/** Registers the routes, and for each path an answer to the methods it does not take. */
const mount = (app: Hono<WebEnv>, routes: readonly Route[]): void => {
  for (const [method, path, handler] of routes) app.on(method, path, handler);
  for (const path of new Set(routes.map(([, path]) => path))) {
    const methods = routes.filter((route) => route[1] === path).map(([method]) => method);
    app.all(path, (c) => {
      c.header("Allow", methods.join(", "));
      throw new Problem("method_not_allowed", { extensions: { allowed_methods: methods } });
    });
  }
};
