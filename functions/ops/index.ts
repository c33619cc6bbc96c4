import * as v from "valibot";
import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import { singleFlight } from "../../kit/single-flight.ts";
import type { CoreConfig } from "../config/core-config.ts";
import { anyone } from "../http/guards.ts";
import { type Reply, type Route, route } from "../http/route.ts";
import { openWithOpsDetail, opsOnly } from "./access.ts";
import { type Check, type ReadinessReport, runChecks } from "./readiness.ts";

/** The checks and figures that the ops endpoints report. */
export interface Ops {
  config: Pick<CoreConfig, "ops">;
  clock: Clock;
  log: Log;
  checks: { core: readonly Check[]; ingest: readonly Check[]; licensing: readonly Check[] };
  /** Returns Prometheus text and its media type; null if nothing is counted, as in workerd. */
  metrics: (() => Promise<{ type: string; content: string }>) | null;
}

const Status = v.picklist(["ready", "not_ready", "disabled"]);
const ReadinessView = v.strictObject({
  status: Status,
  checks: v.array(
    v.strictObject({ name: v.string(), status: Status, detail: v.nullable(v.string()) }),
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

const withoutDetail = ({ status, checks }: ReadinessReport): ReadinessReport => ({
  status,
  checks: checks.map((check) => ({ ...check, detail: null })),
});

/** Returns the ops routes (docs/operate.md): `/healthz`, `/readyz`, `/readyz/ingest`, `/readyz/licensing`, `/metrics`. */
export const opsRoutesOf = ({ config, checks, metrics, ...tools }: Ops): readonly Route[] => [
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
  route({
    method: "GET",
    path: "/readyz/ingest",
    operationId: "ingestReadiness",
    summary: "The ingest listener accepts and commits telemetry",
    guard: opsOnly(config.ops),
    replies,
    handle: async () => replyOf(await runChecks(checks.ingest, tools)),
  }),
  route({
    method: "GET",
    path: "/readyz/licensing",
    operationId: "licensingReadiness",
    summary: "The license is valid and not exceeded; nothing stops working otherwise",
    guard: opsOnly(config.ops),
    replies,
    handle: async () => replyOf(await runChecks(checks.licensing, tools)),
  }),
  ...(metrics === null ? [] : [metricsRoute(config.ops, metrics)]),
];

/** Callers need no credentials and may call at any rate, so `check` must share concurrent runs. */
const readinessRoute = (config: CoreConfig["ops"], check: () => Promise<ReadinessReport>): Route =>
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

const metricsRoute = (config: CoreConfig["ops"], metrics: NonNullable<Ops["metrics"]>): Route =>
  route({
    method: "GET",
    path: "/metrics",
    operationId: "metrics",
    summary: "Metrics in the text format of Prometheus",
    guard: opsOnly(config),
    replies: { 200: { description: "Metrics" } },
    handle: async () => ({ status: 200, text: await metrics() }),
  });
