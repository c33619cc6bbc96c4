import { expect, it } from "vitest";
import { compressAnswer } from "./compress-answer.ts";

const json = { "Content-Type": "application/json" };
/** Returns the coding of an answer. */
const codingOf = (accepts: string, headers: object = json, [method, status] = ["GET", 200]) => {
  const request = new Request("http://core.test/", {
    method,
    headers: { "Accept-Encoding": accepts },
  });
  const response = new Response("data", { status, headers: { ...headers } });
  const answer = compressAnswer(request, response, [
    { name: "zstd" },
    { name: "br" },
    { name: "gzip" },
  ]);
  return answer.headers.get("Content-Encoding");
};

it.each([
  ["gzip, deflate, br, zstd", "zstd"],
  ["gzip;q=0.5 , br;q=0", "gzip"],
  ["zstd; q=0.000,br", "br"],
  ["zstdx, deflate", null],
  [",;,;q=; =".repeat(100_000), null],
])("answers %.30s with %s", (accepts, coding) => {
  expect(codingOf(accepts)).toBe(coding);
});

it("leaves events, what may have a secret beside what was sent, and what is compressed", () => {
  for (const type of ["text/event-stream", "text/html; charset=utf-8", "application/problem+json"])
    expect([type, codingOf("zstd", { "Content-Type": type })]).toEqual([type, null]);
  expect(
    codingOf("zstd", { "Content-Type": "text/x-ndjson", "X-Accel-Buffering": "no" }),
  ).toBeNull();
  expect(codingOf("zstd", json, ["POST", 200])).toBeNull();
  expect(codingOf("zstd", { ...json, "Content-Encoding": "br" })).toBe("br");
});
