import { describe, expect, it } from "vitest";
import { defaultPreferences, parsePreferences, toggleColumn } from "./table-preferences.ts";

describe("the table preferences", () => {
  it("are the defaults for any text that they did not store", () => {
    for (const text of [null, "", "{", "7", "null", "[]", '{"hidden":7,"density":"tiny"}', '{"hidden":["device","x"]}'])
      expect(parsePreferences(text)).toEqual(defaultPreferences);
  });

  it("are read as they were stored, and never hide the column that names the row", () => {
    const preferences = toggleColumn(toggleColumn({ ...defaultPreferences, density: "compact" }, "queue"), "config");
    expect(preferences).toEqual({ hidden: ["config", "queue"], density: "compact" });
    expect(parsePreferences(JSON.stringify(preferences))).toEqual(preferences);
    expect(toggleColumn(preferences, "queue").hidden).toEqual(["config"]);
    expect(toggleColumn(preferences, "device")).toEqual(preferences);
  });
});
