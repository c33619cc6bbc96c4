import type { Msg, MsgHdrs, NatsConnection } from "@nats-io/transport-node";
import { expect, it, vi } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { pullMessages } from "./stream-pulls.ts";

/** Begins to pull of a server that delivers what the test says; returns the delivery of a sequence. */
const open = () => {
  let asked = "";
  let ended = "";
  let callback: (error: null, message: Msg) => void = () => undefined;
  const connection = {
    subscribe: (_: string, options: { callback: typeof callback }) => {
      callback = options.callback;
      return { isClosed: () => true };
    },
    publish: (_: string, __: string, { reply }: { reply: string }) => {
      asked = reply;
    },
  } as unknown as NatsConnection;
  const of = {
    stream: "SVC",
    consumer: "svc-export",
    deliveries: async () => 0,
    bytes: 1,
    messageBytesMax: 1,
  };
  const pulls = pullMessages({ ...of, connection, clock: createTestClock() });
  let delivery = 0;
  const deliver = (sequence: number, deliveries: number) => {
    const reply = `$JS.ACK.SVC.svc-export.${deliveries}.${sequence}.${++delivery}.1780315208290000000.0`;
    callback(null, { subject: "svc", data: new Uint8Array(8), reply } as unknown as Msg);
  };
  /** Ends a request without a further message, once it has been sent. */
  const end = async () => {
    await vi.waitUntil(() => asked !== ended);
    ended = asked;
    const headers = { code: 404, description: "No Messages" } as MsgHdrs;
    callback(null, { subject: asked, data: new Uint8Array(), headers } as unknown as Msg);
  };
  return { pulls, deliver, end };
};

it("drops a message that the server delivers again", async () => {
  const { pulls, deliver } = open();
  deliver(7, 1);
  deliver(7, 2);
  expect((await pulls.receive()).map(({ sequence }) => sequence)).toEqual([7]);
  pulls.close();
});

it("ends when another message is delivered at a place: the stream was restored to before it", async () => {
  const { pulls, deliver } = open();
  deliver(7, 1);
  deliver(5, 1);
  await expect(pulls.receive()).rejects.toThrow("the stream has gone back");
  pulls.close();
});

it("ends when the server has made fewer deliveries than arrived: its consumer was restored", async () => {
  const { pulls, deliver, end } = open();
  deliver(7, 1);
  expect(await pulls.receive()).toHaveLength(1);
  await end();
  await end();
  await expect(pulls.receive()).rejects.toThrow("the consumer has gone back");
  pulls.close();
});
