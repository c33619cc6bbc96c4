import { expect, it } from "vitest";
import { insertCaBundle } from "#functions/store/system/ca-bundles.ts";
import type { SystemCalendar } from "#proto/system/calendar.ts";
import type { SystemTrust } from "#proto/system/trust.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { createTestToken, sendHeartbeat } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock, db } = test;
const { enroll } = await createTestToken(test);
const hosts = [await enroll("awake"), await enroll("away")];
const reportOf = (ingest: number | null) => ({
  ca_bundles: { ingest, management: null, pinned: false },
});
const beat = async (at: number, ingest: number | null) => {
  const host = hosts[at];
  if (host) await sendHeartbeat(test, host, reportOf(ingest));
};
const read = async () => {
  const { channels, away } = await test.auditor.read<SystemTrust>("/v1/system/trust");
  return { ingest: channels[0], management: channels[1], away };
};
const nameOf = ({ identity }: { identity: string }) => identity.split("/").at(-1);

const roots = await Promise.all(
  ["old", "new"].map((name, at) =>
    createTestCa({ name, notAfter: new Date(Date.UTC(2027 + at, 0)) }),
  ),
);
const publish = (number: number, pem: string) =>
  insertCaBundle(db, {
    channel: "ingest",
    number,
    pem,
    sha256: "ab".repeat(32),
    publishedAt: new Date(clock.now()),
  });

it("names the roots of hosts, the hosts that lack them, silent ones first, and when an old one may go", {
  tags: "workerd",
}, async () => {
  await beat(0, 1);
  await beat(1, 1);
  expect((await read()).ingest).toMatchObject({
    bundle: null,
    lacking: [],
    advice: "No bundle is published: SVC_INGEST_CA_BUNDLE_FILE is not set.",
  });
  await publish(2, roots.map(({ pem }) => pem).join(""));
  await clock.advance(600_000);
  await beat(0, 1);
  const { ingest, management, away } = await read();
  expect(ingest).toMatchObject({
    bundle: {
      number: 2,
      roots: [
        { subject: "CN=old", ends_at: "2027-01-01T00:00:00.000Z" },
        { subject: "CN=new", ends_at: "2028-01-01T00:00:00.000Z" },
      ],
    },
    hosts: { newest: 0, older: 2 },
    advice: "2 of 2 hosts lack bundle 2: servers must not use its new roots yet.",
  });
  expect(ingest?.lacking.map((host) => [nameOf(host), host.is_silent, host.number])).toEqual([
    ["away", true, 1],
    ["awake", false, 1],
  ]);
  expect(management).toMatchObject({ bundle: null, lacking: [] });
  expect(away).toBe("svc-collector enroll --reenroll --ca-bundle FILE");
  await clock.advance(1_000);
  await beat(0, 2);
  await beat(1, 2);
  expect((await read()).ingest).toMatchObject({
    lacking: [],
    advice:
      "Every host has bundle 2: servers may use any root in it, and unused ones can be removed.",
  });
  // A host that lies, or has the bundles of a lost database, is named too.
  await clock.advance(15_000);
  await beat(1, 2 ** 53 - 1);
  expect((await read()).ingest).toMatchObject({
    hosts: { newest: 1, ahead: 1 },
    lacking: [{ identity: hosts[1]?.identity, number: 2 ** 53 - 1 }],
  });
  const { items } = await test.auditor.read<SystemCalendar>("/v1/system/calendar");
  const published = items.filter(({ name }) => name === "ingest_ca_bundle");
  expect(published.map(({ subject, of, ends_at: end }) => [subject, of.join(), end])).toEqual([
    ["CN=old", "hosts", "2027-01-01T00:00:00.000Z"],
    ["CN=new", "hosts", "2028-01-01T00:00:00.000Z"],
  ]);
  expect(await test.reader.get("/v1/system/trust")).toMatchObject({
    status: 403,
    body: { code: "forbidden", scope: "audit" },
  });
});
