import { expect, it } from "vitest";
import { compressAnswer } from "./compress-answer.ts";

const marked = (name: string) => (body: ReadableStream<Uint8Array>) =>
  body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode(`${name} `)),
    }),
  );
const codings = (["zstd", "br", "gzip"] as const).map((name) => ({ name, compress: marked(name) }));
/** Returns the coding, `Vary`, and the body of an answer. */
const compressed = async (accepts: string | null, response: Response, method = "GET") => {
  const headers: Record<string, string> = accepts === null ? {} : { "Accept-Encoding": accepts };
  const answer = compressAnswer(new Request("http://core.test/", { method, headers }), response, codings);
  return [answer.headers.get("Content-Encoding"), answer.headers.get("Vary"), await answer.text()];
};
const data = (headers: Record<string, string> = {}, status = 200) =>
  new Response("data", { status, headers: { "Content-Type": "application/json", ...headers } });

it.each([
  ["gzip, deflate, br, zstd", "zstd"],
  ["gzip, deflate, br", "br"],
  ["GZIP;q=0.5, br;q=0", "gzip"],
  ["identity;q=0, *", "zstd"],
  ["zstd;q=0, *;q=0.1", "br"],
  ["identity", null],
  ["zstdx, deflate, gzip;q=0.000", null],
  [",;,;q=;=".repeat(100_000), null],
  [null, null],
])("answers %.30s with %s", async (accepts, coding) => {
  expect(await compressed(accepts, data())).toEqual([coding, "Accept-Encoding", coding ? `${coding} data` : "data"]);
});

it.each([
  ["events, which leave at once", data({ "Content-Type": "text/event-stream" })],
  ["a page, which may have a secret beside what was sent", data({ "Content-Type": "text/html; charset=utf-8" })],
  ["a problem, which may quote", data({ "Content-Type": "application/problem+json" })],
  ["what is compressed already", data({ "Content-Encoding": "br" })],
  ["an answer that creates something", data({}, 201)],
  ["an answer to a POST, such as a new token", data(), "POST"],
])("leaves %s", async (_, response, method = "GET") => {
  const before = response.headers.get("Content-Encoding");
  expect(await compressed("zstd", response, method)).toEqual([before, null, "data"]);
});

it("leaves less than 1 KiB, and weakens the ETag of other bytes", async () => {
  expect((await compressed("zstd", data({ "Content-Length": "1023" })))[0]).toBeNull();
  const request = new Request("http://core.test/", { headers: { "Accept-Encoding": "br" } });
  const { headers } = compressAnswer(request, data({ "Content-Length": "1024", ETag: '"a"', Vary: "Accept" }), codings);
  expect(["Content-Encoding", "Content-Length", "ETag", "Vary"].map((name) => headers.get(name))).toEqual([
    "br",
    null,
    'W/"a"',
    "Accept, Accept-Encoding",
  ]);
});
