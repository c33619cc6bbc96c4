import { expect, it } from "vitest";
import { createSbom } from "./sbom.ts";

const shipped = (name: string, license: string) => ({
  name,
  version: "1.2.3",
  license,
  homepage: "https://example.test/",
  integrity: `sha512-${Buffer.alloc(64, 1).toString("base64")}`,
  texts: [],
});

it("U2: an SBOM has what ships, with purl, license and digest, and is the same whatever the order", async () => {
  const packages = [shipped("b", "MIT"), shipped("@scope/a", "(MIT OR Apache-2.0)")];
  const artifact = { path: "server.tar.gz", version: "0.2.0", sha256: "ab".repeat(32), packages };
  const timestamp = new Date("2026-01-02T03:04:05Z");
  const text = await createSbom(artifact, timestamp);
  expect(await createSbom({ ...artifact, packages: packages.toReversed() }, timestamp)).toBe(text);
  const sbom = JSON.parse(text);
  expect(sbom).toMatchObject({
    specVersion: "1.6",
    metadata: {
      timestamp: "2026-01-02T03:04:05.000Z",
      component: { name: "server.tar.gz", hashes: [{ alg: "SHA-256", content: "ab".repeat(32) }] },
    },
  });
  expect(sbom).not.toHaveProperty("serialNumber");
  expect(sbom.components).toMatchObject([
    {
      group: "@scope",
      name: "a",
      purl: "pkg:npm/%40scope/a@1.2.3",
      licenses: [{ expression: "(MIT OR Apache-2.0)" }],
    },
    {
      name: "b",
      purl: "pkg:npm/b@1.2.3",
      licenses: [{ license: { id: "MIT" } }],
      hashes: [{ alg: "SHA-512", content: "01".repeat(64) }],
    },
  ]);
  const dependencies = sbom.dependencies.find(
    ({ ref }: { ref: string }) => ref === "server.tar.gz",
  );
  expect(dependencies.dependsOn).toEqual(["pkg:npm/%40scope/a@1.2.3", "pkg:npm/b@1.2.3"]);
});
