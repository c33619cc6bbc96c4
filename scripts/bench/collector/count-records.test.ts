import { expect, it } from "vitest";
import { countRecords } from "./count-records.ts";
import { spansRequest } from "./span-exporter.ts";

it("counts the spans of requests, also of several in one message", () => {
  const requests = [spansRequest(7, 1), spansRequest(1, 2), spansRequest(0, 3)];
  expect(requests.map((request) => countRecords(request))).toEqual([7, 1, 0]);
  // Protobuf merges concatenated messages.
  expect(countRecords(Buffer.concat(requests))).toBe(8);
});
