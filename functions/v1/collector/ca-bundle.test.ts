import { hash } from "node:crypto";
import { expect, it } from "vitest";
import { createHeartbeatAnswers } from "#functions/domain/fleet/heartbeat.ts";
import { insertCaBundle } from "#functions/store/system/ca-bundles.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import {
  createTestToken,
  enrollmentOf,
  manage,
  postEnrollment,
  sendHeartbeat,
} from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock, db } = test;
const { enroll, token } = await createTestToken(test);
const publish = (channel: CaChannel, number: number) => {
  const pem = `${channel} ${number}`;
  const sha256 = hash("sha256", pem, "hex");
  return insertCaBundle(db, { channel, number, pem, sha256, publishedAt: new Date(clock.now()) });
};
const host = await enroll("host");
let sent = 0;
const fetchBundle = (body: object) =>
  manage(test, host, "ca_bundle", { sent_at: clock.iso(++sent), ...body });

it("gives a host the newest bundles, and their numbers with each heartbeat", {
  tags: "workerd",
}, async () => {
  expect((await fetchBundle({ channel: "ingest" })).body).toEqual({ bundle: null });
  expect((await sendHeartbeat(test, host)).body).toMatchObject({
    ca_bundles: { ingest: 0, management: 0 },
  });
  await publish("ingest", 3);
  await publish("ingest", 4);
  await publish("management", 9);
  await clock.advance(1_000);
  const { body } = await fetchBundle({ channel: "ingest" });
  expect(body).toMatchObject({ bundle: { number: 4, pem: "ingest 4" } });
  expect((await sendHeartbeat(test, host)).body).toMatchObject({
    ca_bundles: { ingest: 4, management: 9 },
  });
  const management = {
    number: 9,
    pem: "management 9",
    sha256: hash("sha256", "management 9", "hex"),
  };
  const both = { ca_bundles: { ingest: body.bundle, management } };
  expect((await postEnrollment(test, token, await enrollmentOf("another"))).body).toMatchObject(
    both,
  );
  const csr_pem = await createTestCsr({ key: await createTestKey(), uri: host.identity });
  const renewal = { sent_at: clock.iso(), csr_pem, collector_version: "1.1.0" };
  expect((await manage(test, host, "renew", renewal)).body).toMatchObject(both);
});

it("tells a hundred hosts a second of a new bundle, and those again", async () => {
  const answer = createHeartbeatAnswers(test.core);
  const tell = async (from: number, to: number) => {
    const told = [];
    for (let n = from; n < to; n += 1) {
      const parts = { desiredConfig: null, renewNow: false };
      const { caBundles } = await answer(`host ${n}`, clock.now(), parts);
      if (caBundles.management === 10) told.push(n);
    }
    return told.length;
  };
  await publish("management", 10);
  expect(await tell(0, 150)).toBe(100);
  expect(await tell(0, 150)).toBe(100);
  await clock.advance(1_000);
  expect(await tell(0, 250)).toBe(200);
});

it("rejects an unknown channel, a proof of another purpose, and a replay", async () => {
  expect(await fetchBundle({ channel: "web" })).toMatchObject({
    status: 422,
    body: { errors: [{ path: "channel", message: "must be ingest or management" }] },
  });
  const body = { sent_at: clock.iso(++sent), channel: "ingest" };
  const other = await manage(test, host, "config_desired", body);
  expect(other.status).toBe(200);
  expect((await manage(test, host, "ca_bundle", body)).status).toBe(200);
  expect((await manage(test, host, "ca_bundle", body)).body).toMatchObject({
    code: "stale_request",
  });
});
