import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connectDatabase } from "#functions/store/database/database.ts";
import { systemClock } from "#kit/clock.ts";
import { Secret } from "#kit/secret.ts";
import { createTracer } from "#kit/tracing/create-tracer.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import { type SpanReceiver, startSpanReceiver } from "../collector/support/span-receiver.ts";
import { createTestCore } from "../support/core.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startTestWeb } from "../support/web.ts";

/* From web's request over core's to the statement in PostgreSQL, as a receiver of OTLP sees them (docs/traces.md). */

let receiver: SpanReceiver;
let database: TestDatabase;
beforeAll(async () => {
  receiver = await startSpanReceiver();
  database = await createTestDatabase();
});
afterAll(async () => {
  receiver.close();
  await database.drop();
});

const tracerOf = (name: string, samplePercent = 100) =>
  createTracer(
    { url: receiver.url, headers: new Secret({ "api-key": "k=1" }), samplePercent },
    { name, version: "1.2.3" },
  );
const traceparent = (flags: string) =>
  `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-${flags}`;
const request = { name: "GET", kind: "server" } as const;

describe("statements of a recorded operation", () => {
  const currentQuery = async (tracer: Tracer, isInTransaction: boolean, from?: string) => {
    const { sql, close } = connectDatabase({ url: database.url, connectionsMax: 1, tracer });
    const ask = "select current_query() as text, $1::int as n";
    try {
      return await tracer.serve(request, from, async () => {
        const [row] = await (isInTransaction
          ? sql.begin((tx) => tx.unsafe(ask, [7]))
          : sql.unsafe(ask, [7]));
        return String(row?.text);
      });
    } finally {
      await close();
    }
  };

  it.each([false, true])(
    "name their span in a comment; in a transaction: %j",
    async (isInTransaction) => {
      const tracer = await tracerOf("statements");
      const text = await currentQuery(tracer, isInTransaction, traceparent("01"));
      expect(text).toMatch(
        / \/\*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-[0-9a-f]{16}-01'\*\/$/,
      );
      await tracer.close();
      const id = /-([0-9a-f]{16})-01'/.exec(text)?.[1];
      expect(receiver.spans.find((span) => span.id === id)).toMatchObject({
        service: "statements",
        name: "SELECT",
        trace: "4bf92f3577b34da6a3ce929d0e0e4736",
        facts: { "db.query.text": "select current_query() as text, $1::int as n" },
      });
      expect(receiver.headers.at(-1)).toMatchObject({ "api-key": "k=1" });
    },
  );

  it.each([
    ["the caller does not record", 100, traceparent("00")],
    ["nothing is sampled", 0, undefined],
    ["traceparent is malformed, and nothing is sampled", 0, "00-xyz"],
  ])("stay as they are when %s", async (_, percent, from) => {
    const tracer = await tracerOf("unsampled", percent);
    expect(await currentQuery(tracer, false, from)).toBe(
      "select current_query() as text, $1::int as n",
    );
    await tracer.close();
    expect(receiver.spans.filter(({ service }) => service === "unsampled")).toEqual([]);
  });

  it("that fail, fail their span, whose facts hold no message", async () => {
    const tracer = await tracerOf("failing");
    const { sql, close } = connectDatabase({ url: database.url, connectionsMax: 1, tracer });
    const work = tracer.serve(request, undefined, () => sql.unsafe("select 'secret'::int"));
    await expect(work).rejects.toThrow("invalid input syntax");
    await close();
    await tracer.close();
    const spans = receiver.spans.filter(({ service }) => service === "failing");
    expect(spans.map(({ name, isFailed }) => [name, isFailed])).toEqual([
      ["SELECT", true],
      ["GET", true],
    ]);
    expect(JSON.stringify(spans.map(({ facts }) => facts["error.type"]))).not.toContain("secret");
  });
});

it("a click is one trace from web over core to PostgreSQL", async () => {
  const [webTracer, coreTracer] = await Promise.all([tracerOf("web"), tracerOf("core", 0)]);
  const web = await startTestWeb({ tracer: webTracer, core: { core: { tracer: coreTracer } } });
  const { header } = await web.sessionOf("auditor");
  await web.app.request(`${web.origin}/api/core/collector/health`, { headers: { Cookie: header } });
  await web.close();
  await Promise.all([webTracer.close(), coreTracer.close()]);
  const [click] = receiver.spans.filter(({ name }) => name === "GET /api/core/collector/health");
  expect(click).toMatchObject({
    service: "web",
    parent: "",
    facts: { "http.response.status_code": 200n },
  });
  const inTrace = receiver.spans.filter(({ trace }) => trace === click?.trace);
  const call = inTrace.find(({ name, parent }) => name === "GET core" && parent === click?.id);
  const served = inTrace.find(({ name }) => name === "GET /v1/collector/health");
  expect(served).toMatchObject({ service: "core", parent: call?.id });
  expect(served?.facts["svc.request_id"]).toBe(click?.facts["svc.request_id"]);
  expect(
    inTrace.filter(({ name, parent }) => name === "SELECT" && parent === served?.id).length,
  ).toBeGreaterThan(1);
});

it.each(["http", "ingest"] as const)(
  "core on the %s listener continues the trace of a caller that records",
  async (listener) => {
    const service = `core on ${listener}`;
    const tracer = await tracerOf(service, 0);
    const core = await createTestCore({ core: { tracer } });
    for (const flags of ["00", "01"])
      await core.api("GET", "/v1/openapi.json", {
        listener,
        headers: { traceparent: traceparent(flags) },
      });
    await core.close();
    await tracer.close();
    const spans = receiver.spans.filter((span) => span.service === service);
    expect(spans.map(({ name, parent }) => [name, parent])).toEqual([
      ["GET /v1/openapi.json", "00f067aa0ba902b7"],
    ]);
  },
);

it("hosts, which choose what they record, make core record ten requests a second at most", async () => {
  const tracer = await tracerOf("core of many", 0);
  const core = await createTestCore({ core: { tracer } });
  const call = { listener: "ingest", headers: { traceparent: traceparent("01") } } as const;
  for (let calls = 0; calls < 15; calls += 1) await core.api("GET", "/v1/openapi.json", call);
  await core.close();
  await tracer.close();
  expect(receiver.spans.filter(({ service }) => service === "core of many")).toHaveLength(10);
});

it("a receiver that is away delays no request, and a stop by two seconds at most", async () => {
  const tracer = await createTracer(
    { url: "http://127.0.0.1:1/v1/traces", headers: null, samplePercent: 100 },
    { name: "away", version: "1" },
  );
  expect(await tracer.serve(request, undefined, async () => "answer")).toBe("answer");
  const closed = tracer.close();
  // However slow the machine is, a timer of two seconds is over before this one.
  const late = systemClock.sleep(3_000).then(() => "late");
  expect(await Promise.race([closed, late])).toBeUndefined();
});
