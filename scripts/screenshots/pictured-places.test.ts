import { expect, it } from "vitest";
import { pictureFaults, placesDigest } from "./pictured-places.ts";

it("rejects a picture whose navigation is another one, or is not recorded", () => {
  const files = ["docs/images/a.png", "docs/images/b.png", "docs/images/c.png", "docs/a.md"];
  const record = { "docs/images/a.png": placesDigest(), "docs/images/b.png": "an earlier one" };
  expect(pictureFaults(files, JSON.stringify(record))).toEqual([
    expect.stringMatching(/^docs\/images\/b\.png: shows another navigation/),
    expect.stringMatching(/^docs\/images\/c\.png: shows another navigation/),
  ]);
});
