import { build } from "esbuild";
import { expect, it } from "vitest";
import { root } from "../repository-files.ts";
import { licenseFaults, licenseOf, printLicenses, printNotices } from "./licenses.ts";
import { packagesOf, shippedFiles } from "./shipped-packages.ts";

const licensed = (license: string | null) => ({
  name: "sample",
  version: "1.0.0",
  license,
  homepage: null,
  integrity: "sha512-AA==",
  texts: [{ file: "LICENSE", text: "Do as you like.\r\n" }],
});

it.each(["MIT", "(MIT OR GPL-3.0-only)", "Apache-2.0 AND (BSD-3-Clause OR LGPL-3.0-only)", "ISC"])(
  "accepts the permissive license %s",
  (license) => {
    expect(licenseFaults([licensed(license)])).toEqual([]);
  },
);

it.each([
  ["GPL-3.0-only", "is not permissive"],
  ["MIT AND AGPL-3.0-only", "is not permissive"],
  ["SSPL-1.0", "is not permissive"],
  ["LicenseRef-own", "is not permissive"],
  ["BSD", "is not an SPDX expression"],
  ["SEE LICENSE IN LICENSE", "is not an SPDX expression"],
  ["UNLICENSED", "is not an SPDX expression"],
  [null, "states no license"],
])("rejects the license %s", (license, fault) => {
  expect(licenseFaults([licensed(license)])).toEqual([expect.stringContaining(fault)]);
});

it("an exception counts for its package and version alone", () => {
  const exceptions = { "sample@1.0.0": { license: "MIT", reason: "its LICENSE file" } };
  expect(licenseFaults([licensed(null)], exceptions)).toEqual([]);
  expect(licenseOf(licensed(null), exceptions)).toBe("MIT");
  expect(licenseFaults([{ ...licensed(null), version: "1.0.1" }], exceptions)).toHaveLength(1);
});

it("finds the packages with code in a bundle, with the digests of bun.lock, and no others", async () => {
  const source =
    'import { gte, valid } from "semver"; import { parse } from "yaml"; console.log(gte("1.0.0", "2.0.0"));';
  const { metafile } = await build({
    absWorkingDir: root,
    stdin: { contents: source, resolveDir: root },
    bundle: true,
    platform: "node",
    format: "esm",
    write: false,
    metafile: true,
  });
  const packages = await packagesOf(root, [...shippedFiles(metafile), "functions/app.ts"]);
  expect(packages.map(({ name }) => name)).toContain("semver");
  expect(packages.find(({ name }) => name === "semver")).toMatchObject({
    license: "ISC",
    integrity: expect.stringMatching(/^sha512-/),
    texts: [{ file: "LICENSE", text: expect.stringContaining("The ISC License") }],
  });
  const [postgres] = await packagesOf(root, ["node_modules/postgres/src/index.js"]);
  expect(postgres).toMatchObject({ name: "postgres" });
});

it("lists each package once with the artifacts that contain it, and its license text in the notices", () => {
  const artifacts = [
    { path: "a", packages: [licensed("MIT")] },
    { path: "b", packages: [licensed("MIT")] },
  ];
  expect(printLicenses(artifacts)).toContain("\n| sample@1.0.0 | MIT | a, b |\n");
  expect(printNotices([licensed("MIT")])).toContain(
    "sample 1.0.0 (MIT)\n\n-- LICENSE\n\nDo as you like.\n",
  );
});
