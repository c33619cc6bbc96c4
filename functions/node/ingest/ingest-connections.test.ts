import { once } from "node:events";
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from "node:http2";
import { json } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectRaw, postHeaders, resetStream } from "#tests/support/ingest/raw-http2.ts";
import { startTestIngest, type TestClient, type TestIngest } from "#tests/support/ingest.ts";

const heartbeat = "/v1/collector/heartbeat";
const managementPaths = new Set([heartbeat]);
/** Reads bodies as the management routes do. */
const app = {
  fetch: async (request: Request) =>
    Response.json({ bytes: (await request.arrayBuffer()).byteLength }),
};
const active = {
  certificateId: "certificate",
  identityId: "identity",
  status: "active" as const,
  identityRevoked: false,
  used: true,
};

let test: TestIngest;
/** What was recorded as a last auth failure. */
let refusals: unknown[];
const sessions: ClientHttp2Session[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) session.destroy();
  await test.close();
});

/** Starts a listener that finds `state` for each certificate. */
const start = async (
  listener: object = {},
  state: object | null = active,
  requireEnrollment = false,
) => {
  refusals = [];
  const certificates = {
    find: async (fingerprints: readonly string[]) =>
      new Map(fingerprints.flatMap((each) => (state ? [[each, state]] : []))),
    use: async () => undefined,
    refused: async (failure: unknown) => void refusals.push(failure),
  };
  test = await startTestIngest({
    config: { requireEnrollment },
    needs: { certificates: certificates as never },
    listener: { app, managementPaths, ...listener },
  });
};

const open = async (certificate: TestClient) => {
  const session = connect(`https://localhost:${test.port}`, { ca: test.caPem, ...certificate });
  sessions.push(session);
  session.on("error", () => undefined);
  await once(session, "connect");
  return session;
};
/** Headers of requests beside method and path. */
let headers: Record<string, string>;
const begin = (session: ClientHttp2Session, path = heartbeat) => {
  const stream = session.request(
    { ":method": "POST", ":path": path, ...headers },
    { endStream: false },
  );
  stream.on("error", () => undefined);
  stream.write(Buffer.alloc(1_000));
  return stream;
};
const answer = async (stream: ClientHttp2Stream) => {
  const [received] = await once(stream, "response");
  const body = (await json(stream)) as { code?: string; bytes?: number };
  return { status: received[":status"], code: body.code, bytes: body.bytes };
};

describe.each([
  { form: "straight from their streams", with: { "content-length": "1000" } },
  { form: "through the compatibility layer", with: {} },
])("connections of the ingest listener, requests $form", (row) => {
  beforeEach(() => {
    headers = row.with;
  });

  it("answers a management request whose body does not end with body_timeout, and serves the next", async () => {
    await start({ bodyTimeoutMs: 100 });
    const session = await open(await test.client({}));
    const held = Array.from({ length: 8 }, () => begin(session));
    for (const each of await Promise.all(held.map(answer)))
      expect(each).toMatchObject({ status: 408, code: "body_timeout" });
    const next = begin(session);
    next.end();
    expect(await answer(next)).toMatchObject({ status: 200, bytes: 1_000 });
    await expect.poll(() => test.ingest.gauges().inFlightBytes).toBe(0);
  });

  it.each([
    [null, "certificate_unknown"],
    [{ ...active, status: "revoked" }, "certificate_revoked"],
    [{ ...active, status: "replaced" }, "certificate_replaced"],
    [{ ...active, identityRevoked: true }, "identity_revoked"],
  ])(
    "rejects a management request by the certificate's row before its body: %o",
    async (state, code) => {
      for (const requireEnrollment of [false, true]) {
        await start({}, state, requireEnrollment);
        const held = begin(await open(await test.client({})));
        expect(await answer(held)).toMatchObject({ status: 401, code });
        const fields = {
          remote_address: "127.0.0.1",
          reason: code,
          host_id: "spiffe://fleet.test/host-1",
        };
        const line = { level: "warn", message: "connection rejected", fields };
        if (requireEnrollment) expect(test.log.lines).toContainEqual(line);
        if (!requireEnrollment) await test.close();
      }
    },
  );

  it("records a connection with an expired certificate as the last auth failure of its identity, if core has issued it", async () => {
    for (const state of [null, active]) {
      await start({}, state);
      const expired = await test.client({ notAfter: new Date(Date.now() - 60_000) });
      const refused = begin(await open(expired));
      expect(await answer(refused)).toMatchObject({ status: 401, code: "certificate_expired" });
      const failure = { identity: "spiffe://fleet.test/host-1", reason: "certificate_expired" };
      await expect
        .poll(() => refusals)
        .toEqual(state ? [{ ...failure, certificateId: "certificate" }] : []);
      if (state === null) await test.close();
    }
  });

  it("G8: rejects a ninth open call of an identity, on whatever connection and of whatever kind", async () => {
    await start();
    const certificate = await test.client({});
    const one = await open(certificate);
    const other = await open(certificate);
    const held = Array.from({ length: 8 }, (_, index) => begin(index < 4 ? one : other));
    await expect.poll(() => test.ingest.gauges().inFlightBytes).toBe(8 * 65_536);
    expect(await answer(begin(other))).toMatchObject({ status: 429, code: "too_many_streams" });
    const host = begin(await open(await test.client({ uri: "spiffe://fleet.test/host-2" })));
    host.end();
    expect(await answer(host)).toMatchObject({ status: 200 });
    for (const stream of held) stream.close(8);
    await expect.poll(() => test.ingest.gauges().inFlightBytes).toBe(0);
  });

  it("rejects a fifth connection of an identity with too_many_connections, and accepts one when another has closed", async () => {
    await start();
    const certificate = await test.client({});
    const first = await open(certificate);
    for (let index = 0; index < 3; index++) await open(certificate);
    await expect
      .poll(async () => {
        const stream = begin(await open(certificate));
        stream.end();
        return answer(stream);
      })
      .toMatchObject({ status: 429, code: "too_many_connections" });
    first.destroy();
    await expect
      .poll(async () => {
        const stream = begin(await open(certificate));
        stream.end();
        return answer(stream);
      })
      .toMatchObject({ status: 200 });
  });

  it("rejects management bodies with overloaded while frames fill the byte budget", async () => {
    await start();
    const release = test.ingest.routes.reserve(64 * 1024 * 1024);
    const session = await open(await test.client({}));
    expect(await answer(begin(session))).toMatchObject({ status: 503, code: "overloaded" });
    release?.();
    const next = begin(session);
    next.end();
    expect(await answer(next)).toMatchObject({ status: 200 });
  });

  it("closes the connections of a certificate that resets too many calls, and accepts it again later", async () => {
    let now = 0;
    const clock = { monotonic: () => now };
    await start({ clock, callers: { faultsBurst: 20, faultsPerSecond: 1 } });
    const certificate = await test.client({});
    const { socket, closed } = await connectRaw(test, certificate);
    for (let id = 1; id < 100; id += 2)
      socket.write(Buffer.concat([postHeaders(id, heartbeat), resetStream(id)]));
    await closed;
    await (await connectRaw(test, certificate)).closed;
    now += 60_000;
    const stream = begin(await open(certificate));
    stream.end();
    expect(await answer(stream)).toMatchObject({ status: 200 });
  });

  it("sends GOAWAY on a connection after its number of calls, and answers them all", async () => {
    await start({ callers: { callsOfConnectionMax: 3 } });
    const session = await open(await test.client({}));
    const gone = once(session, "goaway");
    for (let index = 0; index < 3; index++) {
      const stream = begin(session);
      stream.end();
      expect(await answer(stream)).toMatchObject({ status: 200 });
    }
    expect((await gone)[0]).toBe(0);
  });
});
