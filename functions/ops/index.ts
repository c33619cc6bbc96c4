import * as v from "valibot";
import { equalBytes, sha256 } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import { singleFlight } from "#kit/group-calls.ts";
import type { Log } from "#kit/log.ts";
import { partStates } from "#proto/system/report.ts";
import type { CoreConfig } from "../config/core-config.ts";
import type { HttpContext } from "../http/request.ts";
import { anyone } from "../http/resource.ts";
import { route } from "../http/route.ts";
import type { Guard, Reply, Route } from "../http/route-definition.ts";
import { Problem } from "../problems.ts";
import { type Check, type ReadinessReport, runChecks } from "./readiness.ts";

/** The checks and figures that the ops endpoints report. */
interface Ops {
  config: Pick<CoreConfig, "ops">;
  clock: Clock;
  log: Log;
  checks: { core: readonly Check[]; ingest: readonly Check[]; licensing: readonly Check[] };
  /** Returns Prometheus text and its media type; null if nothing is counted, as in workerd. */
  metrics: (() => Promise<{ type: string; content: string }>) | null;
}

const ReadinessView = v.strictObject({
  status: v.picklist(["ready", "not_ready", "disabled"]),
  checks: v.array(
    v.strictObject({
      name: v.string(),
      status: v.picklist(partStates),
      detail: v.nullable(v.string()),
    }),
  ),
});

const replies = {
  200: { description: "Ready, or disabled", schema: ReadinessView },
  503: { description: "Not ready", schema: ReadinessView },
} as const;

const replyOf = (report: ReadinessReport): Reply => ({
  status: report.status === "not_ready" ? 503 : 200,
  body: report,
});

/** Warnings are of settings that strangers should not know. */
const withoutDetail = ({ status, checks }: ReadinessReport): ReadinessReport => ({
  status,
  checks: checks.map((check) => ({
    name: check.name,
    status: check.status === "warning" ? "ready" : check.status,
    detail: null,
  })),
});

/** Returns the ops routes (docs/operate.md): `/healthz`, `/readyz`, `/readyz/ingest`, `/readyz/licensing`, `/metrics`. */
export const opsRoutesOf = ({ config, checks, metrics, ...tools }: Ops): readonly Route[] => {
  const guard = opsOnly(config.ops);
  const readinessOf = (name: "ingest" | "licensing", summary: string) =>
    route({
      method: "GET",
      path: `/readyz/${name}`,
      operationId: `${name}Readiness`,
      summary,
      guard,
      replies,
      handle: async () => replyOf(await runChecks(checks[name], tools)),
    });
  return [
    route({
      method: "GET",
      path: "/healthz",
      operationId: "health",
      summary: "The process is up, whatever the state of its dependencies",
      guard: anyone,
      replies: { 200: { description: "Up", schema: ReadinessView } },
      handle: async () => ({ status: 200, body: { status: "ready", checks: [] } }),
    }),
    readinessRoute(
      config.ops,
      singleFlight(() => runChecks(checks.core, tools)),
    ),
    readinessOf("ingest", "The ingest listener accepts and commits telemetry"),
    readinessOf(
      "licensing",
      "The license is valid and not exceeded; nothing stops working otherwise",
    ),
    ...(metrics === null ? [] : [metricsRoute(guard, metrics)]),
  ];
};

/** Callers need no credentials and may call at any rate, so `check` must share concurrent runs. */
const readinessRoute = (config: OpsConfig, check: () => Promise<ReadinessReport>): Route =>
  route({
    method: "GET",
    path: "/readyz",
    operationId: "readiness",
    summary: "Core can serve; details only with ops access",
    guard: openWithOpsDetail(config),
    replies,
    handle: async ({ caller }) => {
      const report = await check();
      return replyOf(caller.opsAccess ? report : withoutDetail(report));
    },
  });

const metricsRoute = (guard: Guard<null>, metrics: NonNullable<Ops["metrics"]>): Route =>
  route({
    method: "GET",
    path: "/metrics",
    operationId: "metrics",
    summary: "Metrics in the text format of Prometheus",
    guard,
    replies: { 200: { description: "Metrics" } },
    handle: async () => ({ status: 200, text: await metrics() }),
  });

type OpsConfig = CoreConfig["ops"];

const loopback = /^(?:(?:::ffff:)?127(?:\.\d{1,3}){3}|::1)$/i;

/** Reports whether a proxy forwarded the request: one on this machine makes every caller look local (I8). */
const isForwarded = (headers: Headers) =>
  [...headers.keys()].some(
    (name) => name === "forwarded" || name === "via" || name.startsWith("x-forwarded-"),
  );

/**
 * Returns why a caller has no ops access, or undefined if it has (docs/operate.md). If a bearer token is configured, it alone decides;
 * otherwise only loopback is trusted, and only if the configuration allows it.
 */
const opsRefusal = async (
  { bearerToken, trustLoopback }: OpsConfig,
  c: HttpContext,
): Promise<Problem | undefined> => {
  if (bearerToken !== null) {
    const received = /^Bearer (\S+)$/i.exec(c.req.header("authorization") ?? "")?.[1];
    return received !== undefined && (await isSame(received, bearerToken.reveal()))
      ? undefined
      : new Problem("unauthenticated");
  }
  const { remoteAddress } = c.get("peer");
  const trusted = trustLoopback && loopback.test(remoteAddress) && !isForwarded(c.req.raw.headers);
  return trusted ? undefined : new Problem("ops_access_denied");
};

/** Compares digests, so that the duration does not depend on the secret. */
const isSame = async (given: string, expected: string) => {
  const [a, b] = await Promise.all([sha256(given), sha256(expected)]);
  return equalBytes(a, b);
};

/** Admits callers with ops access; otherwise 401 `unauthenticated` if a bearer token is configured, or else 403 `ops_access_denied`. */
const opsOnly = (config: OpsConfig): Guard<null> => ({
  describe: { kind: "ops" },
  admit: async (c) => {
    const refusal = await opsRefusal(config, c);
    if (refusal) throw refusal;
    return null;
  },
});

/** Admits anyone, and reports whether the caller has ops access. */
const openWithOpsDetail = (config: OpsConfig): Guard<{ opsAccess: boolean }> => ({
  describe: { kind: "open" },
  admit: async (c) => ({ opsAccess: (await opsRefusal(config, c)) === undefined }),
});
