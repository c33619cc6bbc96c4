import { expect, it } from "vitest";
import { deliveryColumns, slowestExport, streamDelivery } from "./stream-delivery.ts";

const at = (stream: string | null, position: bigint) => ({ stream, position });
const reached = (deliveredStream: string | null, deliveredThrough: bigint | null) => ({
  deliveredStream,
  deliveredThrough,
});

it("goes from where hours were settled last to the slowest export of the stream", () => {
  const exports = [at(null, 7n), at("S 1", 90n), at("S 1", 70n)];
  expect(slowestExport(exports)).toBe(7n);
  expect(streamDelivery(exports, reached("S 1", 50n))).toEqual({
    stream: "S 1",
    from: 50n,
    through: 70n,
  });
  // What was delivered before anyone looked is found with its account.
  expect(streamDelivery(exports, undefined)).toEqual({ stream: "S 1", from: 70n, through: 70n });
  expect(streamDelivery([at(null, 7n)], reached("S 1", 50n))).toBeNull();
});

it("stays where it is for an export that began later, and begins anew with a stream that was created again", () => {
  expect(streamDelivery([at("S 1", 0n)], reached("S 1", 50n))).toEqual({
    stream: "S 1",
    from: 50n,
    through: 50n,
  });
  expect(streamDelivery([at("S 2", 9n)], reached("S 1", 50n))).toEqual({
    stream: "S 2",
    from: 0n,
    through: 9n,
  });
});

it("is reached through the last account that was settled", () => {
  const left = {
    host: "a",
    fromMs: 0,
    toMs: 0,
    isStopped: false,
    receivedMs: 0,
    xid: 0n,
    streamEnd: 60n,
  };
  const delivery = { stream: "S 1", from: 50n, through: 70n };
  expect(deliveryColumns(delivery)).toEqual(reached("S 1", 70n));
  expect(deliveryColumns(delivery, left)).toEqual(reached("S 1", 59n));
  expect(deliveryColumns(null)).toEqual(reached(null, null));
});
