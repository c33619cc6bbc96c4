import type { Msg } from "@nats-io/transport-node";
import { expect, it } from "vitest";
import { toStreamMessage } from "./stream-pulls.ts";

const delivered = (reply: string) =>
  toStreamMessage({ subject: "svc.telemetry", data: new Uint8Array(), reply } as unknown as Msg);

it.each([
  ["a server's", "$JS.ACK.SVC_INGEST.svc-export.2.107.9.1780315208290000000.3"],
  [
    "one with a domain and an account",
    "$JS.ACK.hub.ACCOUNT.SVC_INGEST.svc-export.2.107.9.1780315208290999999.3.token",
  ],
])("reads sequence, delivery and the millisecond of storage from the reply: %s", (_, reply) => {
  // 1780315208290000000 is no number: the nearest ones are of the millisecond before, and later.
  expect(delivered(reply)).toMatchObject({
    deliveries: 2,
    sequence: 107,
    delivery: 9,
    storedAt: 1_780_315_208_290,
  });
});

it("rejects another reply", () => {
  expect(() => delivered("_INBOX.1.2")).toThrow("a message of a consumer has the reply _INBOX.1.2");
});
