import { describe, expect, it } from "vitest";
import { defaultLook, parseLook, toggleColumn } from "./columns.ts";

describe("the look of the table", () => {
  it("is the default's for whatever was not stored by it", () => {
    for (const text of [null, "", "{", "7", "null", "[]", '{"hidden":7,"density":"tiny"}', '{"hidden":["device","x"]}'])
      expect(parseLook(text)).toEqual(defaultLook);
  });

  it("reads back what it stores, and never hides the column that names the row", () => {
    const look = toggleColumn(toggleColumn({ ...defaultLook, density: "compact" }, "queue"), "config");
    expect(look).toEqual({ hidden: ["config", "queue"], density: "compact" });
    expect(parseLook(JSON.stringify(look))).toEqual(look);
    expect(toggleColumn(look, "queue").hidden).toEqual(["config"]);
    expect(toggleColumn(look, "device")).toEqual(look);
  });
});
