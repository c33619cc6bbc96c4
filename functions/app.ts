import { Hono } from "hono";
import { TrieRouter } from "hono/router/trie-router";
import { rfc3339 } from "#kit/clock.ts";
import { pooledEntropy } from "#kit/entropy.ts";
import { createRequestBodies } from "#kit/request-bodies.ts";
import { requestIdOf } from "#kit/request-id.ts";
import { requestPath } from "#kit/request-path.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import { isRecordedBySender } from "#kit/tracing/tracer.ts";
import type { Core } from "./core.ts";
import { withReadDeadline } from "./http/read-deadline.ts";
import { renderProblem } from "./http/render-problem.ts";
import type { HttpContext, HttpEnv, Peer } from "./http/request.ts";
import type { Route } from "./http/route-definition.ts";
import { Problem } from "./problems.ts";
import { routesOf } from "./v1/index.ts";

/** Requests of collectors that core records in a second because their collectors do. */
const hostTracesPerSecond = 10;

/** The options that differ between listeners. */
export interface AppOptions {
  /** Returns the peer of a request. */
  peerOf(c: HttpContext): Peer;
  /** The routes to serve; all of `/v1` by default. */
  routes?: readonly Route[];
}

/**
 * Creates core's HTTP app, the same on Node and in workerd. Order: request id and peer, access log and metrics, routes. One translator
 * renders every error.
 */
export const createApp = (
  core: Core,
  { peerOf, routes = routesOf(core) }: AppOptions,
): Hono<HttpEnv> => {
  const { clock, log, observe, tracer } = core;
  const entropy = pooledEntropy(core.entropy);
  const bodies = createRequestBodies(clock);
  // Hono's default builds a RegExpRouter first, which rejects these paths: in workerd for every request.
  const app = new Hono<HttpEnv>({ getPath: requestPath, router: new TrieRouter() });
  const hostTraces = createTokenBuckets({
    burst: hostTracesPerSecond,
    perSecond: hostTracesPerSecond,
    clock,
  });
  /** Returns the trace to continue. Hosts, which must not choose what core records, share a few per second. */
  const callerTrace = ({ listener }: Peer, traceparent: string | undefined) =>
    listener === "http" || (isRecordedBySender(traceparent) && hostTraces.take("hosts"))
      ? traceparent
      : undefined;

  app.use(async (c, next) => {
    const requestId = requestIdOf(c.req.header("x-request-id"), { clock, entropy });
    const peer = peerOf(c);
    c.set("peer", peer);
    c.set("bodies", bodies);
    c.set("origin", { requestId, remoteAddress: peer.remoteAddress });
    const startedAt = clock.monotonic();
    await tracer.serve(
      {
        name: c.req.method,
        kind: "server",
        facts: { "http.request.method": c.req.method, "svc.request_id": requestId },
      },
      callerTrace(peer, c.req.header("traceparent")),
      async (span) => {
        await next();
        const route = c.get("route") ?? "unmatched";
        span.rename(`${c.req.method} ${route}`);
        span.set({ "http.route": route, "http.response.status_code": c.res.status });
        if (c.res.status >= 500) span.fail();
      },
    );
    c.res.headers.set("X-Request-Id", requestId);
    c.res.headers.set("X-Core-Time", rfc3339(clock.now()));
    const seconds = (clock.monotonic() - startedAt) / 1000;
    const route = c.get("route") ?? "unmatched";
    const { method } = c.req;
    const { status } = c.res;
    observe.httpRequest(route, method, String(status), seconds);
    log.debug({ request_id: requestId, route, method, status, seconds }, "request");
  });

  if (!core.config.chatEnabled) app.all("/v1/chat/*", rejectDisabled);
  mountRoutes(app, routes.map(withReadDeadline(clock)));
  const render = renderProblem(log);
  // Not thrown: an error thrown in `notFound` would skip the middleware above.
  app.notFound((c) => render(new Problem("not_found", { detail: "No such path" }), c));
  app.onError(render);
  return app;
};

const rejectDisabled = (): never => {
  throw new Problem("service_disabled", { detail: "Chat is disabled on this deployment" });
};

/** Registers the routes, and for each path a 405 for the methods that it does not accept. */
const mountRoutes = (app: Hono<HttpEnv>, unordered: readonly Route[]): void => {
  // The first path that matches answers: `export.csv` comes before `:id`.
  const routes = unordered.toSorted((a, b) => fixedLength(b) - fixedLength(a));
  for (const entry of routes) {
    app.on(entry.method, entry.path, async (c) => {
      c.set("route", entry.path);
      return entry.handle(c);
    });
  }
  for (const [path, entries] of Map.groupBy(routes, (entry) => entry.path)) {
    const methods = entries.map(({ method }) => method);
    app.all(path, (c) => {
      c.set("route", path);
      c.header("Allow", methods.join(", "));
      throw new Problem("method_not_allowed", { extensions: { allowed_methods: methods } });
    });
  }
};

/** Returns how much of a path comes before its first parameter. */
const fixedLength = ({ path }: Route) => path.search(/:|$/);
