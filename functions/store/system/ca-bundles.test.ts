import { expect, it } from "vitest";
import { createTestToken, sendHeartbeat } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { findTrust, insertCaBundle } from "./ca-bundles.ts";

it("counts hosts by what they report, and names those that lack the newest bundle, silent ones first", async () => {
  const test = await useTestCore();
  const { clock, db } = test;
  const { enroll } = await createTestToken(test);
  const reports: [name: string, report: object][] = [
    ["revoked", { ingest: 1, management: null, pinned: false }],
    ["older", { ingest: 1, management: null, pinned: false }],
    ["newest", { ingest: 2, management: 2, pinned: false }],
    ["ahead", { ingest: 3, management: null, pinned: false }],
    ["without", { ingest: null, management: null, pinned: false }],
    ["pinned", { ingest: null, management: null, pinned: true }],
  ];
  for (const [name, ca_bundles] of reports) {
    await clock.advance(1_000);
    const host = await enroll(name);
    await sendHeartbeat(test, host, { ca_bundles });
    if (name === "revoked") await test.revoke(host.identityId);
  }
  const heardAt = new Date(clock.now());
  await clock.advance(1_000);
  const earlier = await enroll("earlier-collector");
  await sendHeartbeat(test, earlier);
  await enroll("never-seen");
  const { bundle, hosts, lacking } = await findTrust(db, "ingest");
  expect([bundle, lacking]).toEqual([null, []]);
  expect(hosts).toMatchObject({ newest: 0, none: 1 });

  const row = { sha256: "", publishedAt: new Date(clock.now()) };
  await insertCaBundle(db, { ...row, channel: "ingest", number: 1, pem: "old" });
  await insertCaBundle(db, { ...row, channel: "ingest", number: 2, pem: "new" });
  const trust = await findTrust(db, "ingest");
  expect(trust.bundle).toMatchObject({ number: 2, pem: "new" });
  expect(trust.hosts).toEqual({
    newest: 1,
    older: 1,
    ahead: 1,
    none: 1,
    pinned: 1,
    unreported: 2,
  });
  const nameOf = (identity: string) => identity.split("/").at(-1);
  expect(trust.lacking.map(({ identity, number }) => [nameOf(identity), number])).toEqual([
    ["never-seen", null],
    ["older", 1],
    ["ahead", 3],
    ["without", null],
    ["pinned", null],
    ["earlier-collector", null],
  ]);
  expect(trust.lacking[4]).toMatchObject({ isPinned: true, lastHeartbeatAt: heardAt });
  expect(trust.lacking[0]?.lastHeartbeatAt).toBeNull();
});
