import { expect, it } from "vitest";
import { exportPath } from "./export-path.ts";

it("an export is asked for with the filters in force, every state of them", () => {
  expect(exportPath("config_drift", {})).toBe("/api/core/collector/health/export.csv?kind=config_drift");
  expect(exportPath("stale", { states: ["revoked", "stale"], text: "rack 4&5" })).toBe(
    "/api/core/collector/health/export.csv?kind=stale&state=revoked&state=stale&q=rack+4%265",
  );
});
