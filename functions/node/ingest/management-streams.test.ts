import { once } from "node:events";
import { connect } from "node:http2";
import { json } from "node:stream/consumers";
import { afterEach, expect, it } from "vitest";
import { startTestIngest, type TestIngest } from "#tests/support/ingest.ts";

const path = "/v1/collector/heartbeat";
let test: TestIngest;
let fetch: (request: Request, env: unknown) => Promise<Response>;
const closing: { destroy(): void }[] = [];
afterEach(async () => {
  for (const session of closing.splice(0)) session.destroy();
  await test.close();
});

const start = async () => {
  const certificates = {
    find: async (fingerprints: readonly string[]) =>
      new Map(
        fingerprints.map((each) => [
          each,
          { status: "active", identityRevoked: false, used: true, identityId: "i" },
        ]),
      ),
  };
  test = await startTestIngest({
    needs: { certificates: certificates as never },
    listener: {
      app: { fetch: (request, env) => fetch(request, env) },
      managementPaths: new Set([path]),
    },
  });
  const session = connect(`https://localhost:${test.port}`, {
    ca: test.caPem,
    ...(await test.client({})),
  });
  closing.push(session);
  session.on("error", () => undefined);
  return (headers: Record<string, string>) => {
    const stream = session.request({ ":method": "POST", ":path": path, ...headers });
    stream.on("error", () => undefined);
    return stream;
  };
};

/** The first is served from its stream, the second through the compatibility layer. */
const forms = [{ "content-length": "11" }, { "content-length": "11", expect: "100-continue" }];

it("reach the app the same from their stream as through the compatibility layer", async () => {
  const post = await start();
  fetch = async (request, env) => {
    const { expect: _, ...headers } = Object.fromEntries(request.headers);
    const text = new TextDecoder().decode(await request.arrayBuffer());
    const { method, url, signal } = request;
    const body = { method, url, headers, text, aborted: signal.aborted, env };
    return Response.json(body, {
      status: 201,
      headers: { "X-Request-Id": "one", "Retry-After": "7" },
    });
  };
  const answers = await Promise.all(
    forms.map(async (headers) => {
      const stream = post({ ...headers, "x-request-id": "a", accept: "b", cookie: "c=1; d=2" });
      stream.end("hello there");
      const [{ date, ...received }] = await once(stream, "response");
      expect(date).toMatch(/GMT$/);
      return { received: { ...received }, body: await json(stream) };
    }),
  );
  expect(answers[0]).toMatchObject({
    received: { ":status": 201, "x-request-id": "one", "retry-after": "7" },
    body: {
      text: "hello there",
      env: { peer: { remoteAddress: "127.0.0.1", listener: "ingest" } },
    },
  });
  expect(answers[0]).toEqual(answers[1]);
});

it.each(forms)(
  "answer, then reset the sender of a body that the app does not read: %o",
  async (headers) => {
    const post = await start();
    fetch = async () => Response.json({}, { status: 401 });
    const stream = post({ ...headers, "content-length": "1000000" });
    stream.write(Buffer.alloc(1_000));
    const [received] = await once(stream, "response");
    expect(received[":status"]).toBe(401);
    await once(stream.resume(), "close");
    expect(stream.rstCode).toBe(0);
  },
);

it.each(forms)("end when the app fails, without its reason: %o", async (headers) => {
  const post = await start();
  fetch = () => Promise.reject(new Error("a secret"));
  const stream = post(headers);
  stream.end("hello there");
  const [received] = await once(stream, "response");
  expect(received[":status"]).toBe(500);
  expect(await stream.toArray()).toEqual([]);
});

it("abort the signal of a client that disconnects before its answer", async () => {
  const post = await start();
  const aborted = Promise.withResolvers<void>();
  const began = Promise.withResolvers<void>();
  fetch = async (request) => {
    request.signal.addEventListener("abort", () => aborted.resolve());
    began.resolve();
    await aborted.promise;
    return Response.json({});
  };
  const stream = post(forms[0] ?? {});
  stream.end("hello there");
  await began.promise;
  stream.close(8);
  await aborted.promise;
  await expect.poll(() => test.ingest.gauges().inFlightBytes).toBe(0);
});
