import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { SubmitRequestSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createTestToken, type TestCollector } from "#tests/support/collector.ts";
import { createTestCore, type TestCore } from "#tests/support/core.ts";
import { connectInTest, openForward, submit } from "#tests/support/grpc-client.ts";
import {
  clientOf,
  ingestPaths,
  startTestIngest,
  type TestClient,
  type TestIngest,
} from "#tests/support/ingest.ts";
import { createCertificateRegister } from "../ingest-registers.ts";
import { createDatabaseServers } from "../node/database/database-servers.ts";
import { revocationChannel } from "../store/certificate/identities.ts";
import { listen, type Subscription } from "../store/database/listen.ts";
import type { IngestNeeds } from "./create-ingest.ts";

/** TLS compares dates with the machine's clock, so core and ingest start at its time; then their clock moves only by `advance`. */
let core: TestCore;
let ingest: TestIngest;
/** A second core on the same database, which receives no notifications. */
let replicaWithoutNotifications: TestIngest;
let enroll: (deviceId: string) => Promise<TestCollector>;

const connect = (host: TestClient | TestCollector, replica = ingest) =>
  connectInTest(replica, "cert" in host ? host : clientOf(host));

const frame = (host_id: string, sequence = 1) => ({
  host_id,
  queue_id: Buffer.alloc(16, 9),
  previous_sequence: sequence - 1,
  envelopes: [{ sequence, kind: "log_line" }],
});

const revoke = (path: string) => core.admin.post(path, { reason_code: "stolen" });

let subscription: Subscription | undefined;

describe.each(ingestPaths)(
  "ingest with SVC_INGEST_REQUIRE_ENROLLMENT=true, on the $path",
  ({ fastPath }) => {
    beforeAll(async () => {
      core = await createTestCore();
      core.clock.set(systemClock.now());
      const certificates = createCertificateRegister(core.core, core.database.connect().db);
      const at = { url: core.databaseUrl, servers: createDatabaseServers(core.databaseUrl) };
      const listenFor: IngestNeeds["listen"] = ({ revoked }) => {
        subscription = listen(at, { [revocationChannel]: revoked });
        return subscription.listening;
      };
      const { ca, database, clock } = core;
      const config = { requireEnrollment: true };
      ingest = await startTestIngest({
        config,
        ca,
        database,
        needs: { fastPath, clock, certificates, listen: listenFor },
      });
      replicaWithoutNotifications = await startTestIngest({
        config,
        ca,
        database,
        needs: { fastPath, clock, certificates },
      });
      ({ enroll } = await createTestToken(core));
    });
    afterAll(async () => {
      subscription?.close();
      await Promise.all([ingest.close(), replicaWithoutNotifications.close()]);
      await core.close();
    });

    it("accepts the frames of an enrolled collector, and marks its certificate used", async () => {
      const collector = await enroll("a-1");
      expect((await submit(connect(collector), frame(collector.identity))).error).toBeUndefined();
      const [row] = await ingest.connection
        .sql`select first_used_at from certificate where id = ${collector.certificateId}`;
      expect(row?.first_used_at).not.toBeNull();
    });

    it("rejects a certificate without a row, a revoked certificate and a revoked identity, and records the reason", async () => {
      const byHand = await ingest.client({ uri: "spiffe://fleet.test/by-hand" });
      const denied = (reason: string) => ({ code: status.PERMISSION_DENIED, reason });
      const { error } = await submit(connect(byHand), frame("spiffe://fleet.test/by-hand"));
      expect(error).toMatchObject(denied("certificate_unknown"));
      const one = await enroll("b-1");
      const two = await enroll("b-2");
      await revoke(`/v1/collector/certificates/${one.certificateId}/revoke`);
      await revoke(`/v1/collector/identities/${two.identityId}/revoke`);
      expect((await submit(connect(one), frame(one.identity))).error).toMatchObject(
        denied("certificate_revoked"),
      );
      expect((await submit(connect(two), frame(two.identity))).error).toMatchObject(
        denied("identity_revoked"),
      );
      const rows = await ingest.connection
        .sql`select identity, last_auth_failure_reason as reason from collector_identity
      where identity in (${one.identity}, ${two.identity}) order by identity`;
      expect(rows.map(({ reason }) => reason)).toEqual(["certificate_revoked", "identity_revoked"]);
    });

    it("G4: stores nothing of a Submit that began before a revocation and ended after it", async () => {
      const collector = await enroll("half-sent");
      const session = connectHttp2(`https://localhost:${ingest.port}`, {
        ca: ingest.caPem,
        ...clientOf(collector),
      });
      session.on("error", () => undefined);
      const sent = toBinary(
        SubmitRequestSchema,
        create(SubmitRequestSchema, {
          frame: {
            hostId: collector.identity,
            queueId: new Uint8Array(16).fill(9),
            envelopes: [{ sequence: 1n, kind: "log_line" }],
          },
        }),
      );
      const stream = session.request({
        ":method": "POST",
        ":path": "/svc.ingest.v1.IngestService/Submit",
        "content-type": "application/grpc",
        te: "trailers",
      });
      stream.write(Buffer.from([0, 0, 0, 0, sent.length]));
      await expect.poll(() => ingest.ingest.gauges().openStreams).toBe(1);
      // Ends after the Submit, by the same recheck.
      const marker = openForward(connect(collector));
      marker.call.write({ open: { host_id: collector.identity, queue_id: Buffer.alloc(16, 9) } });
      await once(marker.call, "data");
      await revoke(`/v1/collector/identities/${collector.identityId}/revoke`);
      await marker.ended;
      const trailers = once(stream, "trailers");
      stream.end(sent);
      const [{ "grpc-status": code }] = (await trailers) as [Record<string, unknown>];
      expect(Number(code)).toBe(status.PERMISSION_DENIED);
      const stored = await ingest.connection
        .sql`select from ingest_block where host_id = ${collector.identity}`;
      expect(stored).toHaveLength(0);
      session.destroy();
    });

    it("G4: a notified revocation ends the open stream at once, and no other", async () => {
      const bad = await enroll("c-1");
      const good = await enroll("c-2");
      const streams = [];
      for (const collector of [bad, good]) {
        const stream = openForward(connect(collector));
        stream.call.write({ open: { host_id: collector.identity, queue_id: Buffer.alloc(16, 9) } });
        await once(stream.call, "data");
        streams.push(stream);
      }
      const [ended, kept] = streams;
      await revoke(`/v1/collector/identities/${bad.identityId}/revoke`);
      expect((await ended?.ended)?.error).toMatchObject({
        code: status.PERMISSION_DENIED,
        reason: "identity_revoked",
      });
      kept?.call.write({ frame: frame(good.identity) });
      kept?.call.end();
      expect((await kept?.ended)?.error).toBeUndefined();
      expect(kept?.messages.at(-1)?.ack?.acked_through).toBe("1");
    });

    it("G4: no replica accepts an envelope 5 s after the revocation, with or without a notification", async () => {
      const sender = await enroll("d-1");
      const replicas = [ingest, replicaWithoutNotifications].map((replica, index) => {
        const queue_id = Buffer.alloc(16, index + 1);
        const { call, ended } = openForward(connect(sender, replica));
        call.write({ open: { host_id: sender.identity, queue_id } });
        let sequence = 0;
        const sending = setInterval(
          () => call.write({ frame: { ...frame(sender.identity, ++sequence), queue_id } }),
          20,
        );
        return { queue_id, call, ended: ended.finally(() => clearInterval(sending)) };
      });
      await Promise.all(replicas.map(({ call }) => once(call, "data")));
      const revokedAt = core.clock.now();
      await revoke(`/v1/collector/certificates/${sender.certificateId}/revoke`);
      // One recheck, whose query takes no time of this clock: later it would count as unanswered.
      await core.clock.advance(2_500);
      for (const { queue_id, ended } of replicas) {
        expect((await ended).error).toMatchObject({
          code: status.PERMISSION_DENIED,
          reason: "certificate_revoked",
        });
        const [last] = await ingest.connection.sql`select max(received_at) as at from ingest_block
        where host_id = ${sender.identity} and queue_id = ${queue_id}`;
        expect(new Date(last?.at).getTime() - revokedAt).toBeLessThan(5_000);
      }
    });
  },
);
