import { expect, it } from "vitest";
import { createCorpus } from "../support/corpus/corpus.ts";
import { countRecords } from "./count-records.ts";

it("counts the spans of requests, also of several in one message", async () => {
  const requestOf = async (spansOfRequest: number) =>
    (await createCorpus({ mix: "spans", records: 1, spansOfRequest })).map(
      ({ payload }) => payload,
    );
  const requests = [...(await requestOf(7)), ...(await requestOf(1)), new Uint8Array()];
  expect(requests.map((request) => countRecords(request))).toEqual([7, 1, 0]);
  // Protobuf merges concatenated messages.
  expect(countRecords(Buffer.concat(requests))).toBe(8);
});
