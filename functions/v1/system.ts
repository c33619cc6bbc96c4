import { SystemReport } from "#proto/system/report.ts";
import type { Core } from "../core.ts";
import { reportSystem } from "../domain/system/report-system.ts";
import { scope } from "../http/guards.ts";
import { route } from "../http/route.ts";

/** `GET /v1/system`: the state of cores, database, exports and certificates (docs/operate.md). */
export const systemRoute = (core: Pick<Core, "config" | "db" | "reports" | "clock">) =>
  route({
    method: "GET",
    path: "/v1/system",
    operationId: "reportSystem",
    summary: "The state of every core, the database, exports and certificates, and since when",
    guard: scope(core, "audit"),
    replies: { 200: { description: "The report", schema: SystemReport } },
    handle: async () => ({ status: 200, body: await reportSystem(core) }),
  });
