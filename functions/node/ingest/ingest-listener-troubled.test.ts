import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { create, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { describe, expect, it, onTestFinished } from "vitest";
import { createResumeTls } from "#collector/connect/resume-tls.ts";
import { createPostgresSink } from "#functions/ingest/postgres-sink.ts";
import { EnvelopesSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { frame, newQueue, open, testHost } from "#tests/support/frames.ts";
import { connectForeign, forwardAll, openForward, submit } from "#tests/support/grpc-client.ts";
import {
  ingestPaths,
  startTestIngest,
  type TestClient,
  type TestIngest,
} from "#tests/support/ingest.ts";
import { zstdCodec } from "./zstd-codec.ts";

const connect = (certificate: TestClient, to: TestIngest) => {
  const client = connectForeign(to, certificate);
  onTestFinished(() => client.close());
  return client;
};

describe.each(ingestPaths)(
  "ingest under load, failure and reload, on the $path",
  ({ fastPath }) => {
    it("pauses reading while frames wait for their commit, rejects more with overloaded, and resumes after", async () => {
      const small = await startTestIngest({ needs: { inFlightBytesMax: 100_000, fastPath } });
      const big = (from: number, { host, queue } = first) => ({
        ...frame(queue, from, from, host),
        envelopes: [{ sequence: from, kind: "log_line", payload: Buffer.alloc(40_000) }],
      });
      const prepare = async (host: string) => {
        const queue = newQueue();
        const client = connect(await small.client({ uri: host }), small);
        await submit(client, frame(queue, 1, 1, host));
        return { host, queue, client };
      };
      const first = await prepare(testHost);
      const second = await prepare("spiffe://fleet.test/host-2");
      // Nothing commits while another transaction locks the cursor.
      const lock = Promise.withResolvers<void>();
      const locked = Promise.withResolvers<void>();
      const holding = small.connection.sql.begin(async (transaction) => {
        await transaction`select 1 from ingest_cursor for update`;
        locked.resolve();
        await lock.promise;
      });
      await locked.promise;
      const streams = [first, second].map((of) => {
        const stream = openForward(of.client);
        stream.call.write(open(of.queue, of.host));
        for (const sequence of [2, 3, 4, 5]) stream.call.write({ frame: big(sequence, of) });
        return stream;
      });
      // A frame of each: core reads no other of a host whose frames fill a quarter.
      await expect.poll(() => small.ingest.gauges().inFlightBytes).toBeGreaterThan(80_000);
      const refused = await submit(first.client, big(2));
      expect(refused.error).toMatchObject({ code: status.UNAVAILABLE, reason: "overloaded" });
      expect(small.ingest.gauges().inFlightBytes).toBeLessThan(100_000);
      lock.resolve();
      await holding;
      for (const stream of streams) {
        stream.call.end();
        expect((await stream.ended).error).toBeUndefined();
        expect(stream.messages.map(({ ack }) => ack?.acked_through)).toEqual([
          undefined,
          "2",
          "3",
          "4",
          "5",
        ]);
      }
      expect(small.ingest.gauges().inFlightBytes).toBe(0);
      await small.close();
    });

    it("O2: acknowledges blocks that unpack to four times the budget, and holds a quarter of it and one block at most", async () => {
      const budgetBytes = 16_000_000;
      let most = 0;
      const own = await startTestIngest({
        needs: { inFlightBytesMax: budgetBytes, fastPath },
        sink: (needs) => {
          const sink = createPostgresSink(needs);
          const commit: typeof sink.commit = (frameToCommit, bytes) => {
            most = Math.max(most, own.ingest.gauges().inFlightBytes);
            return sink.commit(frameToCommit, bytes);
          };
          return { ...sink, commit };
        },
      });
      const queue = newQueue();
      const blocks = Array.from({ length: 20 }, (_, index) => {
        const envelopes = [
          { sequence: BigInt(index + 1), kind: "log_line", payload: new Uint8Array(4_000_000) },
        ];
        const raw = toBinary(EnvelopesSchema, create(EnvelopesSchema, { envelopes }));
        const range = {
          previous_sequence: index,
          last_sequence: index + 1,
          envelopes: 1,
          raw_bytes: raw.length,
        };
        return {
          block: {
            host_id: testHost,
            queue_id: queue,
            ...range,
            encoding: 2,
            data: zstdCodec.compress(raw),
          },
        };
      });
      const { error, messages } = await forwardAll(connect(await own.client({}), own), [
        open(queue),
        ...blocks,
      ]);
      expect(error).toBeUndefined();
      expect(messages.at(-1)?.ack?.acked_through).toBe("20");
      expect(most).toBeLessThan(budgetBytes / 4 + 4_100_000);
      await own.close();
    });

    it("D5: answers UNAVAILABLE with database_unavailable while the database is unavailable", async () => {
      const databaseUrl = async () => "postgres://postgres@127.0.0.1:1/none";
      const without = await startTestIngest({
        needs: { fastPath },
        sink: (needs) => createPostgresSink({ ...needs, databaseUrl }),
      });
      const client = connect(await without.client({}), without);
      const unavailable = { code: status.UNAVAILABLE, reason: "database_unavailable" };
      expect((await submit(client, frame(newQueue(), 1, 1))).error).toMatchObject(unavailable);
      const queue = newQueue();
      const { messages, error } = await forwardAll(client, [
        open(queue),
        { frame: frame(queue, 1, 1) },
      ]);
      expect(error).toMatchObject(unavailable);
      expect(messages.length).toBe(1);
      expect(without.ingest.health().healthy).toBe(false);
      await without.close();
    });

    it("ends open streams with shutting_down when it closes", async () => {
      const closing = await startTestIngest({ needs: { fastPath } });
      const stream = openForward(connect(await closing.client({}), closing));
      stream.call.write(open(newQueue()));
      await once(stream.call, "data");
      const closed = closing.listener.close(60_000);
      expect((await stream.ended).error).toMatchObject({
        code: status.UNAVAILABLE,
        reason: "shutting_down",
      });
      await closed;
      await closing.close();
    });

    it("answers what has arrived on a stream before it lets it go, so that nothing is sent twice", async () => {
      const commits = Promise.withResolvers<void>();
      const moving = await startTestIngest({
        needs: { fastPath },
        sink: (needs) => {
          const sink = createPostgresSink(needs);
          const commit: typeof sink.commit = async (...frames) => {
            await commits.promise;
            return sink.commit(...frames);
          };
          return { ...sink, commit };
        },
      });
      const queue = newQueue();
      const other = newQueue();
      const client = connect(await moving.client({}), moving);
      const stream = openForward(client);
      stream.call.write(open(queue));
      await once(stream.call, "data");
      const staying = openForward(client);
      staying.call.write(open(other));
      await once(staying.call, "data");
      stream.call.write({ frame: frame(queue, 1, 1) });
      await expect.poll(() => moving.ingest.gauges().inFlightBytes).toBeGreaterThan(0);
      moving.ingest.releaseStreams(1);
      commits.resolve();
      const { error, messages } = await stream.ended;
      expect(error).toMatchObject({ code: status.UNAVAILABLE, reason: "stream_moved" });
      expect(messages.at(-1)?.ack?.acked_through).toBe("1");
      expect(moving.ingest.gauges().openStreams).toBe(1);
      staying.call.end();
      expect((await staying.ended).error).toBeUndefined();
      await moving.close();
    });

    it("presents a renewed server certificate without a restart, and keeps the old one until key and certificate match", async () => {
      const renewed = await startTestIngest({ needs: { fastPath } });
      const presented = async () => {
        const session = connectHttp2(`https://localhost:${renewed.port}`, {
          ca: renewed.caPem,
          ...(await renewed.client({})),
        });
        await once(session, "connect");
        const { raw } = (session.socket as TLSSocket).getPeerCertificate();
        session.destroy();
        return Buffer.from(raw).toString("hex");
      };
      const before = await presented();
      const next = await renewed.issueServer();
      await writeFile(renewed.files.serverCertFile, next.cert);
      await renewed.tls.check();
      expect(renewed.tls.fault()).toContain("SVC_INGEST_SERVER_KEY_FILE");
      expect(await presented()).toBe(before);
      await writeFile(renewed.files.serverKeyFile, next.key);
      await renewed.tls.check();
      expect(renewed.tls.fault()).toBeUndefined();
      expect(await presented()).toBe(next.der.toHex());
      await renewed.close();
    });

    it("knows the certificate of a resumed TLS session, and resumes none after a change of its files", async () => {
      const core = await startTestIngest({ needs: { fastPath } });
      const certificate = await core.client({});
      const resume = createResumeTls();
      const request =
        "POST /v1/collector/heartbeat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
      const post = async () => {
        const socket = resume((session) =>
          connectTls({
            host: "localhost",
            servername: "localhost",
            port: core.port,
            ca: core.caPem,
            ...certificate,
            ...session,
          }),
        );
        await once(socket, "secureConnect");
        socket.write(request);
        const [answer] = await once(socket, "data");
        const isResumed = socket.isSessionReused();
        socket.destroy();
        return [isResumed, String(answer).includes(certificate.der.toHex())];
      };
      const answers = [await post(), await post(), await post()];
      const next = await core.issueServer();
      await writeFile(core.files.serverCertFile, next.cert);
      await writeFile(core.files.serverKeyFile, next.key);
      await core.tls.check();
      answers.push(await post(), await post());
      expect(answers).toEqual(
        [false, true, true, false, true].map((isResumed) => [isResumed, true]),
      );
      await core.close();
    });
  },
);
