import { expect, it } from "vitest";
import { readPairNames } from "./pairs.ts";
import { createPeers, summarizeGoals } from "./peers.ts";

it("builds no peer without Go, and never passes with the floors alone", async () => {
  const { peers, versions } = createPeers(undefined, () => Promise.reject(new Error("built")));
  expect(await peers("otelcol")).toBeUndefined();
  expect(versions).toEqual({});
  expect(summarizeGoals([])).toMatchObject({ figure: 0, floor: 0, ratio: 0, ok: false });
  expect(summarizeGoals([{ met: true }, { met: "not judged" }])).toMatchObject({
    figure: 1,
    goal: 2,
    ok: false,
  });
});

it("builds peers with Go and reports their versions", async () => {
  const { peers, versions } = createPeers("/usr/bin/go", async (name, go) => `${go} ${name}`);
  expect(await peers("otelcol")).toBe("/usr/bin/go otelcol");
  expect(versions).toEqual({ otelcol: "v0.149.0" });
});

it("fails when a goal is missed", () => {
  expect(summarizeGoals([{ met: true }, { met: false }])).toMatchObject({
    figure: 1,
    floor: 2,
    ratio: 0.5,
    ok: false,
  });
});

it("selects pairs by name and rejects unknown ones", () => {
  expect(readPairNames("rows,spans")).toEqual(["rows", "spans"]);
  expect(() => readPairNames("rows,sheep")).toThrow("no pair is named sheep");
});
