import { expect, it } from "vitest";
import {
  defaultPreferences,
  labelColumnsMax,
  parsePreferences,
  toggleColumn,
  toggleLabel,
} from "./table-preferences.ts";

it("are the defaults for any text that they did not store", () => {
  for (const text of [
    null,
    "",
    "{",
    "7",
    "null",
    "[]",
    '{"hidden":7,"density":"tiny"}',
    '{"hidden":["device","x"]}',
  ])
    expect(parsePreferences(text)).toEqual(defaultPreferences);
});

it("are read as they were stored, and never hide the column that names the row", () => {
  const preferences = toggleColumn(
    toggleColumn({ ...defaultPreferences, density: "compact" }, "queue"),
    "config",
  );
  expect(preferences).toEqual({ hidden: ["config", "queue"], density: "compact", labels: [] });
  expect(parsePreferences(JSON.stringify(preferences))).toEqual(preferences);
  expect(toggleColumn(preferences, "queue").hidden).toEqual(["config"]);
  expect(toggleColumn(preferences, "device")).toEqual(preferences);
});

it("show a bounded number of labels, in the order in which they were chosen", () => {
  const chosen = ["team", "env"].reduce(toggleLabel, defaultPreferences);
  expect(chosen.labels).toEqual(["team", "env"]);
  expect(parsePreferences(JSON.stringify(chosen))).toEqual(chosen);
  expect(toggleLabel(chosen, "team").labels).toEqual(["env"]);
  const many = Array.from({ length: labelColumnsMax + 1 }, (_, n) => `k${n}`);
  expect(many.reduce(toggleLabel, defaultPreferences).labels).toEqual(
    many.slice(0, labelColumnsMax),
  );
  for (const labels of ['["a b"]', '"env"', "[1]"])
    expect(parsePreferences(`{"labels":${labels}}`)).toEqual(defaultPreferences);
});
