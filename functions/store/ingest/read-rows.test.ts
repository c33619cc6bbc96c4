import { expect, it } from "vitest";
import { decodeRows } from "../../../tests/support/decode-rows.ts";
import { encodeRows } from "./envelope-rows.ts";
import { readRows } from "./read-rows.ts";

it("reads the rows above a cursor as COPY receives them, with times of every year to the microsecond", () => {
  const times = [
    { seconds: -62_135_596_800n, nanos: 1_000 },
    { seconds: 946_684_799n, nanos: 999_999_000 },
    { seconds: 253_402_300_799n, nanos: 123_456_789 },
    undefined,
  ];
  const rows = times.map((observedAt, index) => ({
    sequence: BigInt(index + 1),
    kind: "log_line",
    observedAt,
    source: "/naïve\n",
    attributes: { "a\n": "é" },
    payload: Uint8Array.of(index, 0, 255),
  }));
  const encoded = encodeRows({ hostId: "h", queueId: new Uint8Array(16), receivedAt: 1_795_000_000_123, rows });
  const read = [...readRows(encoded, 0n)];
  expect(read.map(({ observedAt }) => observedAt)).toEqual([
    "0001-01-01T00:00:00.000001Z",
    "1999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.123456Z",
    undefined,
  ]);
  for (const [index, { sequence, kind, source, payload }] of decodeRows(encoded).entries())
    expect(read[index]).toMatchObject({
      sequence,
      kind,
      source,
      payload: Buffer.from(payload),
      receivedAt: "2026-11-18T11:06:40.123000Z",
    });
  expect(JSON.parse(read[0]?.attributes ?? "")).toEqual({ "a\n": "é" });
  expect([...readRows(encoded, 2n)].map(({ sequence }) => sequence)).toEqual([3n, 4n]);
});
