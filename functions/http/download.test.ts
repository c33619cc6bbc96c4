import { expect, it } from "vitest";
import { downloadName } from "./download.ts";

const at = new Date("2026-11-20T16:45:03.250Z");

it("has the filter that was asked for, and the time", () => {
  expect(
    downloadName(
      "fleet-queue_risk",
      { state: ["stale", "revoked"], q: "dc-3/a", version: undefined },
      at,
      "csv",
    ),
  ).toBe("fleet-queue-risk_state-stale-revoked_q-dc-3-a_20261120T164503Z.csv");
});

it("is short, and has no character that a header or a file system could misread", () => {
  const name = downloadName(
    "fleet",
    { q: '../"\r\n;é'.repeat(100), identity: "x".repeat(500) },
    at,
    "csv",
  );
  expect(name).toMatch(/^[\w.-]{1,160}$/);
  expect(name).toMatch(/_20261120T164503Z\.csv$/);
});
