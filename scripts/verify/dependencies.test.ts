import { expect, it } from "vitest";
import { dependencyFaults } from "./dependencies.ts";

it("U1: accepts only exact versions of the registry and the listed install scripts", () => {
  expect(dependencyFaults({ dependencies: { a: "1.2.3" }, optionalDependencies: { b: "1.2.3-beta.4" } })).toEqual([]);
  for (const version of [
    "^1.2.3",
    "~1.2.3",
    "1.x",
    "*",
    "latest",
    "",
    "git+https://example.test/a.git",
    "file:../a",
    "1.2",
  ])
    expect(dependencyFaults({ devDependencies: { a: version } })).toHaveLength(1);
  expect(dependencyFaults({ trustedDependencies: ["esbuild", "left-pad"] })).toEqual([
    expect.stringContaining("left-pad"),
  ]);
});
