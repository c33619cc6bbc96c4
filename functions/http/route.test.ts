import * as v from "valibot";
import { expect, it } from "vitest";
import { useTestCore } from "#tests/support/core.ts";
import { Problem } from "../problems.ts";
import { anyone } from "./resource.ts";
import { bodyBytesMax, parse, route } from "./route.ts";

const readerOf = (path: string) =>
  route({
    method: "GET",
    path,
    operationId: "read",
    summary: "Names itself",
    guard: anyone,
    replies: { 200: { description: "The path of the route" } },
    handle: async () => ({ status: 200, body: { path } }),
  });

const test = await useTestCore({
  routes: () => [
    readerOf("/v1/files/:id"),
    readerOf("/v1/files/export.csv"),
    route({
      method: "POST",
      path: "/v1/echo",
      operationId: "echo",
      summary: "Answers what it was sent",
      guard: anyone,
      body: v.unknown(),
      replies: { 200: { description: "The body" } },
      handle: async ({ body }) => ({ status: 200, body: { body } }),
    }),
  ],
});

const send = async (content: BodyInit, type = "application/json") => {
  const { status, body } = await test.api("POST", "/v1/echo", { raw: { type, content } });
  return status === 200 ? body.body : `${status} ${body.code}`;
};

/** A body of unknown length, as a chunked request has it; `sent` counts what was taken. */
const chunked = (bytes: number) => {
  const counter = { sent: 0 };
  const chunk = new Uint8Array(64 * 1024).fill(0x20);
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (counter.sent >= bytes) return controller.close();
      counter.sent += chunk.length;
      controller.enqueue(chunk);
    },
  });
  // The types of the DOM omit `duplex`, which undici requires.
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: stream,
    duplex: "half",
  };
  const request = new Request("http://core.test/v1/echo", init);
  return { request, counter };
};

it("prefers a fixed path to one with a parameter, wherever it stands in the list", async () => {
  const pathOf = async (path: string) => (await test.api("GET", path)).body.path;
  expect(await pathOf("/v1/files/export.csv")).toBe("/v1/files/export.csv");
  expect(await pathOf("/v1/files/7")).toBe("/v1/files/:id");
});

it("I2: rejects a chunked body as soon as it exceeds 1 MiB, without reading the rest", async () => {
  const { request, counter } = chunked(64 * bodyBytesMax);
  expect((await test.fetch(request)).status).toBe(413);
  expect(counter.sent).toBeLessThan(bodyBytesMax + 256 * 1024);
});

it("E10: accepts exactly 1 MiB, and rejects one byte more", async () => {
  const quoted = (bytes: number) => JSON.stringify("a".repeat(bytes - 2));
  expect(await send(quoted(bodyBytesMax))).toHaveLength(bodyBytesMax - 2);
  expect(await send(quoted(bodyBytesMax + 1))).toBe("413 payload_too_large");
});

it("I2: rejects nesting beyond 32, not counting brackets inside strings", async () => {
  const nested = (depth: number) => `{"a":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
  expect(await send(nested(32))).toHaveProperty("a");
  expect(await send(nested(33))).toBe("400 malformed_json");
  expect(await send(nested(500_000))).toBe("400 malformed_json");
  expect(await send(`{"a":"${"[".repeat(100)}\\"${"{".repeat(100)}"}`)).toBeTypeOf("object");
});

it.each([
  ["nothing", "", "415 unsupported_media_type"],
  ["half a document", '{"a":', "400 malformed_json"],
  ["two documents", "{} {}", "400 malformed_json"],
  ["bytes that are not UTF-8", new Uint8Array([0x22, 0xff, 0x22]), "400 malformed_json"],
  ["a byte order mark", "\ufeff{}", "400 malformed_json"],
] as const)("refuses %s", async (_, content, expected) => {
  expect(await send(content, content === "" ? "" : "application/json")).toBe(expected);
});

it("accepts application/json with parameters and in any case, and no other type", async () => {
  expect(await send("{}", "Application/JSON; charset=utf-8")).toEqual({});
  for (const type of [
    "text/plain",
    "application/jsonx",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
  ])
    expect(await send("{}", type)).toBe("415 unsupported_media_type");
});

it("rejects a compressed body with 415", async () => {
  const coded = (coding: string) =>
    test.api("POST", "/v1/echo", {
      raw: { type: "application/json", content: "{}" },
      headers: { "Content-Encoding": coding },
    });
  for (const coding of ["gzip", "br", "identity, gzip"])
    expect(await coded(coding)).toMatchObject({
      status: 415,
      body: { detail: "Send the body without a content coding" },
    });
  expect((await coded("identity")).status).toBe(200);
});

it("I2: names the first fault alone of a value with many entries, as each fault takes memory", () => {
  const schema = v.strictObject({ names: v.array(v.string("must be a string")) });
  const faultsOf = (entries: number) => {
    try {
      return parse(schema, { names: Array.from({ length: entries }, () => 0) });
    } catch (error) {
      return error instanceof Problem && error.options.errors?.map(({ path }) => path);
    }
  };
  expect(faultsOf(2)).toEqual(["names.0", "names.1"]);
  expect(faultsOf(20_000)).toEqual(["names.0"]);
});

it("I2: treats __proto__ in a body as an ordinary name", async () => {
  expect(JSON.stringify(await send('{"__proto__": {"polluted": 1}}'))).toBe(
    '{"__proto__":{"polluted":1}}',
  );
  expect("polluted" in {}).toBe(false);
});
