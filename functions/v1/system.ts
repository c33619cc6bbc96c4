import { resource } from "#functions/http/resource.ts";
import { SystemReport } from "#proto/system/report.ts";
import type { Core } from "../core.ts";
import { reportSystem } from "../domain/system/report-system.ts";

/** The route that reports the state of cores, database, exports and certificates (docs/operate.md). */
export const systemReports = (core: Pick<Core, "config" | "db" | "reports" | "clock">) =>
  resource(core, "/v1/system", ({ get }) => ({
    reportSystem: get(
      "",
      "The state of every core, the database, exports and certificates, and since when",
      { returns: ["The report", SystemReport], handle: async () => await reportSystem(core) },
    ),
  }));
