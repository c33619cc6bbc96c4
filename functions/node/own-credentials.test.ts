import { expect, it } from "vitest";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { createCredentialReader } from "./own-credentials.ts";

const year = (offset: number) => new Date(Date.UTC(2030 + offset, 0));
const bundleOf = async (count: number) => {
  const authorities = Array.from({ length: count }, (_, at) =>
    createTestCa({ name: `Root ${at}`, notAfter: year(at) }),
  );
  return (await Promise.all(authorities)).map(({ pem }) => pem).join("");
};

const read = ({ ca = "", cert = "" }, ...variables: string[]) => {
  const connection = { servers: { target: () => ({ tls: { ca, cert } }) } };
  const sources = new Map(variables.map((name) => [name, null]));
  return createCredentialReader(
    { sources, license: null },
    {
      files: { signing: null, tls: null, bundles: [] },
      variables: { servers: { requests: connection, sessions: connection } },
    },
  )();
};

it("reports each authority of a bundle, and of one with many only the last", async () => {
  const found = read({ ca: await bundleOf(10) }, "SVC_DATABASE_URL");
  expect(found.map(({ name }) => name)).toEqual(["database_password", "database_ca"]);
  expect(found[1]).toMatchObject({ endsAt: year(9).toISOString(), changedAt: null });
  expect(found[1]?.parts).toEqual([{ subject: "CN=Root 9", endsAt: year(9).toISOString() }]);
  const [, few] = read({ ca: await bundleOf(8) }, "SVC_DATABASE_URL");
  expect(few?.endsAt).toBe(year(7).toISOString());
  expect(few?.parts.map(({ subject }) => subject)).toEqual(
    Array.from({ length: 8 }, (_, at) => `CN=Root ${at}`),
  );
});

it("reports the first end of a chain, and skips what cannot be read", async () => {
  const broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  const found = read({ cert: broken + (await bundleOf(2)) }, "SVC_DATABASE_URL");
  expect(found[1]).toMatchObject({
    name: "database_client",
    endsAt: year(0).toISOString(),
    parts: [{ subject: "CN=Root 0" }, { subject: "CN=Root 1" }],
  });
});
