import { describe, expect, it } from "vitest";
import { describePart, groupParts } from "./parts.ts";
import type { SystemPart } from "./report.ts";

const part = (name: string, of: string | null, facts: Partial<SystemPart> = {}): SystemPart => ({
  area: "core",
  of,
  name,
  state: "ready",
  detail: "",
  since: null,
  ...facts,
});

describe("the component of a part", () => {
  it.each([
    [part("committer", "a"), "ingest", "Commits"],
    [
      part("ingest_server", "a", { area: "certificate" }),
      "certificates",
      "server certificate and intermediates of ingest",
    ],
    [part("delivery", "archive", { area: "export" }), "export", "Delivery"],
    [part("database_url_file", "a"), "database", "File of SVC_DATABASE_URL_FILE"],
    [part("ops_bearer_token_file", "a"), "core", "File of SVC_OPS_BEARER_TOKEN_FILE"],
  ])("of %o is %s", (one, component, title) => {
    expect(describePart(one)).toMatchObject({ component, title });
  });

  it("has a remedy whose commands and settings are marked", () => {
    const remedy = (name: string) => describePart(part(name, "a")).remedy;
    expect(remedy("retention")).toContain("run `svc-server confirm-clock`.");
    expect(remedy("ingest")).toBe("Set `SVC_INGEST_GRPC_ADDR`.");
  });

  it("has all of its parts; each core and each export is by itself, and the worst first", () => {
    const groups = groupParts([
      part("stopping", "a"),
      part("database", "a"),
      part("stopping", "b"),
      part("delivery", "archive", { area: "export", state: "warning" }),
      part("database", "b", { state: "not_ready" }),
    ]);
    expect(groups.map(({ title, worst, parts }) => [title, worst.state, parts.length])).toEqual([
      ["Database", "not_ready", 2],
      ["Export archive", "warning", 1],
      ["Core a", "ready", 1],
      ["Core b", "ready", 1],
    ]);
    expect(groups[0]?.worst.of).toBe("b");
  });
});
