import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type ClientHttp2Stream, connect as connectHttp2 } from "node:http2";
import { request as requestHttps } from "node:https";
import { text } from "node:stream/consumers";
import { connect as connectTls } from "node:tls";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createPostgresSink, type PostgresSinkNeeds } from "#functions/ingest/postgres-sink.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { countCpuMilliseconds } from "#tests/support/cpu-time.ts";
import { frame, newQueue, testHost } from "#tests/support/frames.ts";
import { connectInTest, submit } from "#tests/support/grpc-client.ts";
import {
  connectRaw,
  dataFrames,
  frameTypes,
  http2Frame,
  postHeaders,
  resetStream,
} from "#tests/support/ingest/raw-http2.ts";
import { rejectedFrames } from "#tests/support/ingest/rejected-frames.ts";
import {
  ingestPaths,
  startTestIngest,
  type TestClient,
  type TestIngest,
} from "#tests/support/ingest.ts";
import { callerLimits } from "./ingest-connections.ts";

let test: TestIngest;
let sink: Sink;
let certificate: TestClient;

const connect = (certificate?: TestClient, to: TestIngest = test) => connectInTest(to, certificate);

describe.each(ingestPaths)("ingest over raw HTTP/2, on the $path", ({ fastPath }) => {
  beforeAll(async () => {
    const config = { frameBytesMax: 1_000_000, payloadBytesMax: 100_000 };
    const createSink = (needs: PostgresSinkNeeds) => {
      sink = createPostgresSink(needs);
      return sink;
    };
    test = await startTestIngest({ config, needs: { fastPath }, sink: createSink });
    certificate = await test.client({});
  });
  afterAll(() => test.close());

  const session = async (to = test, by = certificate) => {
    const client = connectHttp2(`https://localhost:${to.port}`, { ca: to.caPem, ...by });
    client.on("error", () => undefined);
    await once(client, "connect");
    return client;
  };
  /** The headers and trailers of a stream, as they come. */
  const receivedBy = (stream: ClientHttp2Stream) => {
    const received: Record<string, unknown> = {};
    for (const event of ["response", "trailers"])
      stream.on(event, (headers) => Object.assign(received, headers));
    stream.on("error", () => undefined);
    return received;
  };
  /** Posts bytes to a method; returns headers, trailers and body, as any of them can carry the error. */
  const post = async (headers: Record<string, string>, body: Uint8Array) => {
    const client = await session();
    const stream = client.request({ ":method": "POST", te: "trailers", ...headers });
    const received = receivedBy(stream);
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.end(body);
    await once(stream, "close");
    client.destroy();
    return Object.assign(received, { body: Buffer.concat(chunks).toString("latin1") });
  };
  const method = (name: string) => ({ ":path": `/svc.ingest.v1.IngestService/${name}` });
  const grpc = { "content-type": "application/grpc" };
  const begun = (name: string) => ({
    ":method": "POST",
    te: "trailers",
    ...grpc,
    ...method(name),
  });
  const postGrpc = (name: string, body: Uint8Array) => post({ ...method(name), ...grpc }, body);
  const openTls = async () => {
    const at = { host: "localhost", port: test.port, ca: test.caPem };
    const socket = connectTls({ ...at, ...certificate });
    await once(socket, "secureConnect");
    return socket;
  };
  const details = (answer: Record<string, unknown>) =>
    Buffer.from(String(answer["grpc-status-details-bin"]), "base64").toString("latin1");
  const expectStatus = (answer: Record<string, unknown>, status: string, reason: string) => {
    expect(answer["grpc-status"]).toBe(status);
    expect(details(answer)).toContain(reason);
  };
  const enveloped = (bytes: Uint8Array, flags = 0, length = bytes.length) => {
    const prefix = Buffer.alloc(5, flags);
    prefix.writeUInt32BE(length, 1);
    return Buffer.concat([prefix, bytes]);
  };

  it("keeps nothing of Node's pool of buffers for a connection, which it would hold as long", async () => {
    const listBytes = new Promise<number>((resolve) => {
      const name = "http2.server.stream.created";
      const read = (message: unknown) => {
        unsubscribe(name, read);
        const { stream } = message as { stream: { session: { socket: object } } };
        const { _tlsOptions } = stream.session.socket as {
          _tlsOptions: { ALPNProtocols: Uint8Array };
        };
        resolve(_tlsOptions.ALPNProtocols.buffer.byteLength);
      };
      subscribe(name, read);
    });
    const client = await session();
    client.request({ ":path": "/" }).on("error", () => undefined);
    expect(await listBytes).toBe("\x02h2\x08http/1.1".length);
    client.destroy();
  });

  it("G8: counts unfinished Submit calls as streams of their identity, and serves other identities", async () => {
    const client = await session(test, await test.client({ uri: "spiffe://fleet.test/hoarder" }));
    const begin = () => {
      const stream = client.request(begun("Submit"));
      stream.on("error", () => undefined);
      stream.write(enveloped(Buffer.alloc(500_000), 0, 900_000));
      return stream;
    };
    const half = Array.from({ length: 8 }, begin);
    await expect.poll(() => test.ingest.gauges().openStreams).toBe(8);
    const [headers] = await once(begin().resume(), "response");
    expect(details(headers)).toContain("too_many_streams");
    expect(
      (await submit(connect(await test.client({})), frame(newQueue(), 1, 1))).error,
    ).toBeUndefined();
    for (const stream of half) stream.close(8);
    await expect.poll(() => test.ingest.gauges().openStreams).toBe(0);
    client.destroy();
  });

  it.each(["Forward", "Submit"])(
    "G2: ends a %s whose message stops, and holds its bytes in the budget until then",
    async (name) => {
      const clock = createTestClock();
      const own = await startTestIngest({ needs: { fastPath, clock } });
      const client = await session(own, await own.client({}));
      const stream = client.request(begun(name));
      const received = receivedBy(stream);
      stream.resume();
      stream.write(enveloped(Buffer.alloc(500_000), 0, 900_000));
      await expect.poll(() => own.ingest.gauges().inFlightBytes).toBe(500_005);
      const closed = once(stream, "close");
      await clock.advance(17_000 + 1_000 * (500_005 / 16_384));
      await closed;
      expectStatus(received, "4", "body_timeout");
      await expect.poll(() => own.ingest.gauges()).toEqual({ inFlightBytes: 0, openStreams: 0 });
      client.destroy();
      await own.close();
    },
  );

  it("G2: resets a stream whose client reads no acks, and counts its rejections in the budget until then", async () => {
    const own = await startTestIngest({ needs: { fastPath }, listener: { stalledMs: 500 } });
    const { socket, closed } = await connectRaw(own, await own.client({}));
    const reset = new Promise<number>((resolve) =>
      socket.on("data", (bytes: Buffer) => {
        const at = bytes.indexOf(Buffer.of(0, 0, 4, frameTypes.reset, 0, 0, 0, 0, 1));
        if (at >= 0) resolve(bytes.readUInt32BE(at + 9));
      }),
    );
    const messages = rejectedFrames(testHost, { frames: 5, envelopes: 1_000 });
    socket.write(
      Buffer.concat([postHeaders(1, method("Forward")[":path"], grpc), ...dataFrames(1, messages)]),
    );
    // The window has room for the first ack.
    await expect.poll(() => own.ingest.gauges().inFlightBytes).toBeGreaterThanOrEqual(4_000 * 256);
    // CANCEL
    expect(await reset).toBe(8);
    await expect.poll(() => own.ingest.gauges()).toEqual({ inFlightBytes: 0, openStreams: 0 });
    socket.destroy();
    await closed;
    await own.close();
  });

  it("G1: rejects a gzip bomb and a length of 4 GiB with RESOURCE_EXHAUSTED, and uses less than 64 MB for them", async () => {
    const bomb = gzipSync(Buffer.alloc(200_000_000), { level: 1 });
    const before = process.memoryUsage().rss;
    const gzip = { "grpc-encoding": "gzip" };
    for (const name of ["Forward", "Submit"]) {
      const bombed = await post({ ...method(name), ...grpc, ...gzip }, enveloped(bomb, 1));
      expectStatus(bombed, "8", "frame_too_large");
      const promised = await postGrpc(name, enveloped(Buffer.alloc(9), 0, 0xffff_ffff));
      expectStatus(promised, "8", "frame_too_large");
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(64_000_000);
  });

  it("G1: rejects too many envelopes before it decodes them, in every protocol and encoding", async () => {
    const empty = Buffer.alloc(900_000, Buffer.of(0x22, 0));
    // A frame of 900,000 bytes, field 2 of ForwardRequest or 1 of SubmitRequest.
    const framed = (field: number) =>
      Buffer.concat([Buffer.of((field << 3) | 2, 0xa0, 0xf7, 0x36), empty]);
    const json = Buffer.from(`{"frame":{"envelopes":[${"{},".repeat(250_000)}{}]}}`);
    const sent: [name: string, headers: Record<string, string>, body: Buffer][] = [
      ["Submit", grpc, enveloped(framed(1))],
      ["Submit", { ...grpc, "grpc-encoding": "gzip" }, enveloped(gzipSync(framed(1)), 1)],
      ["Submit", { "content-type": "application/grpc-web+proto" }, enveloped(framed(1))],
      ["Submit", { "content-type": "application/proto" }, framed(1)],
      [
        "Submit",
        { "content-type": "application/proto", "content-encoding": "gzip" },
        gzipSync(framed(1)),
      ],
      ["Submit", { "content-type": "application/json" }, json],
      ["Submit", { "content-type": "application/JSON" }, json],
      [
        "Submit",
        { ...grpc, "content-type": "application/GRPC", "grpc-encoding": "gzip" },
        enveloped(gzipSync(framed(1)), 1),
      ],
      ["Forward", { ...grpc, "grpc-timeout": "9S" }, enveloped(framed(2))],
      ["Forward", { "content-type": "application/connect+proto" }, enveloped(framed(2))],
      ["Forward", { "content-type": "application/connect+json" }, enveloped(json)],
    ];
    for (const [name, headers, body] of sent) {
      const answer = await post({ ...method(name), ...headers }, body);
      // Decoded, it would be rejected for its host id, which is missing.
      const text = `${answer.body}${JSON.stringify(answer)}${details(answer)}`;
      expect({ name, headers, text }).toEqual({
        name,
        headers,
        text: expect.stringMatching(/over(%20| )the(%20| )limit/),
      });
    }
    const taken = await post(
      { ...method("Submit"), "content-type": "application/json", "content-encoding": "gzip" },
      gzipSync(
        JSON.stringify({
          frame: { hostId: testHost, queueId: newQueue().toString("base64"), envelopes: [] },
        }),
      ),
    );
    expect(JSON.parse(taken.body)).toMatchObject({ ack: {} });
  });

  it("G3: rejects bytes that are no protobuf, an unknown encoding and an unknown media type, and serves the next request", async () => {
    const junk = Buffer.from("ffffffffffffffffffff", "hex");
    for (const name of ["Forward", "Submit"])
      expect(await postGrpc(name, enveloped(junk))).toMatchObject({
        "grpc-status": "3",
      });
    const brotli = { "grpc-encoding": "br" };
    expect(
      await post({ ...method("Submit"), ...grpc, ...brotli }, enveloped(junk, 1)),
    ).toMatchObject({
      "grpc-status": "12",
    });
    expect(await post({ ...method("Submit"), "content-type": "text/html" }, junk)).toMatchObject({
      ":status": 415,
    });
    expect((await submit(connect(certificate), frame(newQueue(), 1, 1))).error).toBeUndefined();
  });

  it("serves Connect and gRPC-Web, with the reason in each", async () => {
    const wrong = JSON.stringify({ frame: { hostId: "another" } });
    const connectJson = { ...method("Submit"), "content-type": "application/json" };
    const connectAnswer = await post(connectJson, Buffer.from(wrong));
    expect(connectAnswer).toMatchObject({ ":status": 403 });
    expect(JSON.parse(connectAnswer.body)).toMatchObject({
      code: "permission_denied",
      details: [{ type: "google.rpc.ErrorInfo" }],
    });
    const web = { ...method("Submit"), "content-type": "application/grpc-web+json" };
    const webAnswer = await post(web, enveloped(Buffer.from(wrong)));
    expect(webAnswer.body + JSON.stringify(webAnswer)).toMatch(/grpc-status"?:\s*"?7/);
    const queueId = newQueue();
    const good = {
      frame: {
        hostId: testHost,
        queueId: queueId.toString("base64"),
        envelopes: [{ sequence: 1, kind: "log_line" }],
      },
    };
    const taken = await post(connectJson, Buffer.from(JSON.stringify(good)));
    expect(JSON.parse(taken.body)).toMatchObject({ ack: { ackedThrough: "1" } });
    const large = await post(connectJson, Buffer.alloc(1_000_100, 0x20));
    expect(large).toMatchObject({ ":status": 429 });
    expect(JSON.parse(large.body).details).toHaveLength(1);
  });

  it("G3: answers bytes that are no SubmitRequest, and text that is not UTF-8, with INVALID_ARGUMENT and its reason", async () => {
    const text = (field: number, value: Buffer) =>
      Buffer.concat([Buffer.of((field << 3) | 2, value.length), value]);
    const invalid = [Buffer.from("ffff", "hex"), text(1, text(1, Buffer.of(0xc3, 0x28)))];
    for (const bytes of invalid) {
      for (const type of ["application/grpc", "application/grpc-web+proto", "application/proto"]) {
        const body = type === "application/proto" ? bytes : enveloped(bytes);
        const answer = await post({ ...method("Submit"), "content-type": type }, body);
        const shown = `${JSON.stringify(answer)}${details(answer)}`;
        expect(shown).toMatch(/grpc-status"?: ?"?3|invalid_argument/);
        expect(shown).toMatch(
          /frame_invalid|not(%20| )(a(%20| )SubmitRequest|plain(%20| )protobuf)/,
        );
      }
      const forwarded = await postGrpc("Forward", enveloped(bytes));
      expectStatus(forwarded, "3", "frame_invalid");
    }
  });

  it("answers an unknown method of gRPC with UNIMPLEMENTED and its reason", async () => {
    for (const path of ["/svc.ingest.v1.IngestService/Nothing", "/other.Service/Method"]) {
      const answer = await post({ ":path": path, ...grpc }, enveloped(Buffer.alloc(0)));
      expectStatus(answer, "12", "method_unknown");
    }
  });

  it("P6: serves management paths with the TLS certificate over HTTP/2 and HTTP/1.1", async () => {
    const expected = {
      path: "/v1/collector/heartbeat",
      listener: "ingest",
      certificate: certificate.der.toHex(),
    };
    const http2 = await post({ ":path": "/v1/collector/heartbeat" }, Buffer.from("{}"));
    expect(JSON.parse(http2.body)).toEqual(expected);
    const request = requestHttps({
      host: "localhost",
      port: test.port,
      path: "/v1/collector/heartbeat",
      method: "POST",
      ca: test.caPem,
      ...certificate,
      agent: false,
    });
    request.end("{}");
    const [response] = await once(request, "response");
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toEqual(expected);
  });

  it.each([undefined, "[x", "x:99999", "%2Ftmp%2Fs", "::1:8443", "[::1]:8443"])(
    "W1: serves requests of every protocol with the authority %j",
    async (authority) => {
      const named = authority === undefined ? {} : { ":authority": authority };
      const json = "application/json";
      const sent = [
        await post({ ...method("Submit"), ...grpc, ...named }, enveloped(Buffer.alloc(0))),
        await post({ ...method("Forward"), ...grpc, ...named }, Buffer.alloc(0)),
        await post({ ...method("Submit"), "content-type": json, ...named }, Buffer.from("{}")),
        await post({ ":path": "/v1/collector/heartbeat", ...named }, Buffer.from("{}")),
      ];
      expect(sent.map((answer) => [answer[":status"], answer["grpc-status"]])).toEqual([
        [200, "3"],
        [200, "0"],
        [400, undefined],
        [200, undefined],
      ]);
      const host = authority === undefined ? "" : `Host: ${authority}\r\n`;
      for (const path of [method("Submit")[":path"], "/v1/collector/heartbeat"]) {
        const socket = await openTls();
        socket.write(
          `POST ${path} HTTP/1.1\r\n${host}Content-Type: ${json}\r\nContent-Length: 2\r\n\r\n{}`,
        );
        const [answer] = await once(socket, "data");
        socket.destroy();
        expect(String(answer)).toMatch(
          path.startsWith("/v1/") ? /^HTTP\/1.1 200/ : /"code":"invalid_argument"/,
        );
      }
    },
  );

  it("answers the health checks of gRPC", async () => {
    const headers = { ":path": "/grpc.health.v1.Health/Check", "content-type": "application/json" };
    const check = async (service: string) => {
      const { body, ":status": status } = await post(
        headers,
        Buffer.from(JSON.stringify({ service })),
      );
      return [status, JSON.parse(body)];
    };
    expect(await check("")).toEqual([200, { status: "SERVING" }]);
    const { health } = sink;
    sink.health = () => ({ healthy: false, detail: "" });
    expect(await check("svc.ingest.v1.IngestService")).toEqual([200, { status: "NOT_SERVING" }]);
    sink.health = health;
    expect(await check("svc.Other")).toMatchObject([404, { code: "not_found" }]);
  });

  it("speaks TLS 1.2 only with ciphers that HTTP/2 allows, also after a reload", async () => {
    const { cert, key } = await test.issueServer();
    await writeFile(test.files.serverCertFile, cert);
    await writeFile(test.files.serverKeyFile, key);
    await test.tls.check();
    const cipherOf = (ciphers: string) => {
      const socket = connectTls({
        host: "localhost",
        port: test.port,
        ca: test.caPem,
        maxVersion: "TLSv1.2",
        ciphers,
      });
      onTestFinished(() => void socket.destroy());
      return once(socket, "secureConnect").then(
        () => socket.getCipher().name,
        (error) => error.code,
      );
    };
    expect(await cipherOf("ECDHE+AESGCM")).toMatch(/^ECDHE-ECDSA-AES\d+-GCM/);
    expect(await cipherOf("ALL:!AESGCM:!CHACHA20:@SECLEVEL=0")).toContain("HANDSHAKE_FAILURE");
  });

  it("keeps an idle HTTP/1.1 connection as long as an HTTP/2 one", async () => {
    const socket = await openTls();
    socket.write(
      "POST /v1/collector/heartbeat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
    );
    const [answer] = await once(socket, "data");
    socket.destroy();
    expect(String(answer)).toContain(`\r\nKeep-Alive: timeout=${callerLimits.idleMs / 1000}\r\n`);
  });

  it("answers an invalid HTTP/1.1 request with a problem document", async () => {
    for (const bytes of ["hello\r\n\r\n", "GET http://[x/ HTTP/1.1\r\nHost: a\r\n\r\n"]) {
      const socket = await openTls();
      socket.write(bytes);
      const answer = await text(socket);
      expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
      expect(answer).toContain("application/problem+json");
      expect(answer).toContain('"code":"malformed_request"');
    }
  });

  it("G2: disconnects a client that opens and resets streams without limit, and serves others", async () => {
    const other = connect(await test.client({ uri: "spiffe://fleet.test/other" }));
    await submit(other, frame(newQueue(), 1, 1, "spiffe://fleet.test/other"));
    let streams = 0;
    for (let session = 0; session < 10; session++) {
      const { socket, closed } = await connectRaw(test, certificate);
      for (let id = 1; id < 20_000 && !socket.destroyed; id += 200) {
        const burst: Buffer[] = [];
        for (let each = id; each < id + 200; each += 2, streams++)
          burst.push(
            postHeaders(each, "/svc.ingest.v1.IngestService/Forward", grpc),
            resetStream(each),
          );
        if (!socket.write(Buffer.concat(burst)))
          await Promise.race([once(socket, "drain").catch(() => undefined), closed]);
        await new Promise((resolve) => setImmediate(resolve));
      }
      await closed;
    }
    expect(streams).toBeLessThan(20_000);
    const counted = countCpuMilliseconds();
    const { error } = await submit(other, frame(newQueue(), 1, 1, "spiffe://fleet.test/other"));
    expect(error).toBeUndefined();
    expect(counted()).toBeLessThan(1_000);
    await expect.poll(() => test.ingest.gauges().openStreams).toBe(0);
  });

  it("G2: closes the connection of a header block that never ends", async () => {
    const { socket, closed } = await connectRaw(test, await test.client({}));
    // A literal header of one letter, over and over.
    const headers = Buffer.alloc(12_000, Buffer.from([0x00, 0x01, 0x78, 0x01, 0x79]));
    socket.write(http2Frame(frameTypes.headers, 0, 1, headers));
    let sent = 0;
    while (!socket.destroyed && sent < 1_000) {
      sent++;
      if (!socket.write(http2Frame(frameTypes.continuation, 0, 1, headers)))
        await Promise.race([once(socket, "drain").catch(() => 0), closed]);
    }
    await closed;
    expect(sent).toBeLessThan(1_000);
  });

  it("resets the stream of a sender that continues after its rejection", async () => {
    // Another certificate than the one whose resets core has counted.
    const client = await session(test, await test.client({}));
    const stream = client.request(
      { ":method": "POST", ...method("Forward"), ...grpc },
      { endStream: false },
    );
    stream.on("error", () => undefined);
    stream.resume();
    let ended: unknown;
    stream.on("trailers", (trailers) => (ended = trailers["grpc-status"]));
    stream.write(enveloped(Buffer.from("ffff", "hex")));
    await once(stream, "close");
    expect([stream.rstCode, ended]).toEqual([0, "3"]);
    client.destroy();
    await expect.poll(() => test.ingest.gauges()).toEqual({ inFlightBytes: 0, openStreams: 0 });
  });
});
