import { create, toBinary } from "@bufbuild/protobuf";
import { sql } from "drizzle-orm";
import { afterAll, beforeEach, expect, it } from "vitest";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { createTestToken } from "../support/collector.ts";
import { openEnvelopeStore, untilPast } from "../support/stored-envelopes.ts";
import { startTestAdmin } from "./support/admin.ts";

const { web, signIn, adminAt } = await startTestAdmin();
const { enroll } = await createTestToken(web.core);
const host = await enroll("web-17");
const store = await openEnvelopeStore(web.core.database);
const admin = adminAt();
beforeEach(async () => {
  await web.core.clock.advance(1000);
  await signIn("auditor");
});
afterAll(() => store.close());

const traceId = "5b8aa5a2d2c872e8321cf37308d69df2";
const span = toBinary(
  ExportTraceServiceRequestSchema,
  create(ExportTraceServiceRequestSchema, {
    resourceSpans: [
      {
        scopeSpans: [
          {
            spans: [
              {
                name: "GET /cart",
                kind: 2,
                traceId: Uint8Array.fromHex(traceId),
                startTimeUnixNano: 1_795_000_000_000_000_000n,
                endTimeUnixNano: 1_795_000_000_012_000_000n,
                attributes: [
                  {
                    key: "http.response.status_code",
                    value: { value: { case: "intValue", value: 500n } },
                  },
                ],
                events: [{ name: "exception", attributes: [] }],
              },
            ],
          },
        ],
      },
    ],
  }),
);
await store.lines(host.identity, [
  "started",
  "\u001b[2Jcleared\n2026-11-18T00:00:00.000Z log_line forged",
  "Exception:\r\n\tat main",
]);
await store.envelopes(host.identity, [{ kind: "otel_span", payload: span }]);

it("prints the latest lines of a host by its name, and nothing that commands the terminal", async () => {
  const { exitCode, out, err } = await admin.run`telemetry read web-17`;
  expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
  expect(out.split("\n")).toEqual([
    "2026-11-18T11:06:40.000Z log_line /var/log/app.log: started",
    "2026-11-18T11:06:40.000Z log_line /var/log/app.log: \ufffd[2Jcleared",
    "    2026-11-18T00:00:00.000Z log_line forged",
    "2026-11-18T11:06:40.000Z log_line /var/log/app.log: Exception:",
    "        at main",
    `2026-11-18T11:06:40.000Z span GET /cart server 12.000ms http.response.status_code=500 trace=${traceId}`,
    "    event exception",
    "",
  ]);
});

it("selects by kind, text, range and number", async () => {
  const read = async (...args: string[]) =>
    (await admin.run("telemetry", "read", host.identityId, ...args)).out;
  expect(await read("--kind", "otel_span", "--grep", "STATUS_code=500")).toMatch(
    /^\S+ span GET \/cart/,
  );
  expect(await read("--limit", "2", "--kind", "log_line")).toMatch(/cleared[\s\S]*Exception/);
  expect(await read("--to", "2026-01-01T00:00:00Z")).toBe("");
  const empty = await admin.run`telemetry read web-17 --to 2026-01-01T00:00:00Z`;
  expect(empty).toMatchObject({
    exitCode: 0,
    err: "No telemetry of this host was received in this range of time.\n",
  });
});

it("prints what the API returned as JSON, and OTLP/JSON that a receiver takes", async () => {
  const lines = async (form: string) => {
    const { exitCode, out } = await admin.run`telemetry read web-17 -o ${form}`;
    expect(exitCode).toBe(0);
    return out
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  };
  expect((await lines("json"))[3]).toMatchObject({
    kind: "otel_span",
    payload: Buffer.from(span).toString("base64"),
  });
  const otlp = await lines("otlp");
  expect(otlp[0]).toMatchObject({
    resourceLogs: [
      {
        resource: {
          attributes: expect.arrayContaining([
            { key: "host.name", value: { stringValue: "web-17" } },
          ]),
        },
        scopeLogs: [
          {
            scope: { name: "files" },
            logRecords: [
              { observedTimeUnixNano: "1795000000000000000", body: { stringValue: "started" } },
            ],
          },
        ],
      },
    ],
  });
  expect(otlp[3].resourceSpans[0].scopeSpans[0].spans[0]).toMatchObject({
    traceId,
    kind: 2,
    startTimeUnixNano: "1795000000000000000",
  });
});

it("names a damaged block, prints the others and ends with 5", async () => {
  await web.core.db.execute(
    sql`update ingest_block set digest = sha256(digest) where first_sequence = 1`,
  );
  const { exitCode, out, err } = await admin.run`telemetry read web-17`;
  expect(exitCode).toBe(5);
  expect(err).toMatch(/^svc-admin: a stored block is damaged: 3 envelopes, 1 to 3 of queue 0707/);
  expect(out).toMatch(/^\S+ span GET/);
});

it("ends with 2 for another form, and with 1 for a caller without the scope", async () => {
  expect(await admin.run`telemetry read web-17 -o csv`).toMatchObject({
    exitCode: 2,
    out: "",
  });
  expect(await admin.run`fleet list -o text`).toMatchObject({ exitCode: 2, out: "" });
  await signIn("reader");
  expect(await admin.run`telemetry read ${host.identityId}`).toMatchObject({
    exitCode: 1,
    out: "",
  });
});

it("follows, opens a stream that breaks off again, and prints nothing twice and nothing before the limit", async () => {
  const stop = new AbortController();
  const printed: string[] = [];
  let cut: ((cause: Error) => void) | undefined;
  let opened = 0;
  const follower = adminAt({
    signal: stop.signal,
    clock: web.core.clock,
    columns: 80,
    printed: (text) => void printed.push(text),
    fetch: async (input, init) => {
      const response = await fetch(input, init);
      if (!response.headers.get("content-type")?.includes("ndjson")) return response;
      opened++;
      const reader = response.body?.getReader();
      return new Response(
        new ReadableStream({
          start: (controller) => {
            cut = (cause) => controller.error(cause);
          },
          pull: async (controller) => controller.enqueue((await reader?.read())?.value),
          cancel: () => reader?.cancel(),
        }),
        response,
      );
    },
  });
  /** Advances the clock of core and of the follower until so many lines are printed. */
  const untilPrinted = (count: number) =>
    expect
      .poll(async () => {
        await web.core.clock.advance(1000);
        return printed.length;
      })
      .toBe(count);
  await store.lines(host.identity, ["left out"]);
  await store.lines(host.identity, ["last"]);
  await untilPast(web.core.db);
  const running = follower.run`telemetry read ${host.identityId} --follow --limit 1 --kind log_line -o json`;
  await untilPrinted(1);
  await store.lines(host.identity, ["one", "two"]);
  await untilPrinted(3);
  cut?.(new Error("cut"));
  await store.lines(host.identity, ["three"]);
  await untilPrinted(4);
  expect(opened).toBe(2);
  expect(printed.map((line) => atob(JSON.parse(line).payload))).toEqual([
    "last",
    "one",
    "two",
    "three",
  ]);
  stop.abort(new Error("SIGINT"));
  const { exitCode, err } = await running;
  expect(exitCode).toBe(130);
  expect(err).toContain("svc-admin: the response broke off");
});
