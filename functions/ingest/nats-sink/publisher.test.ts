import { connect, type NatsConnection } from "@nats-io/transport-node";
import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { canStartNats, startNats } from "#scripts/lab/nats-servers.ts";
import { createPublisher } from "./publisher.ts";

const canStart = await canStartNats();

it.skipIf(!canStart)(
  "rejects a request once the connection that takes its answer is lost",
  async () => {
    const nats = await startNats();
    onTestFinished(() => nats.stop());
    const connection = await connect({ servers: nats.addresses, maxReconnectAttempts: 0 });
    const observe = { published: () => undefined, publishFailed: () => undefined };
    const publisher = createPublisher({ connection, clock: systemClock, observe });
    onTestFinished(() => publisher.close());
    expect(await publisher.answerTo(Promise.resolve("answer"))).toBe("answer");
    const failed = expect(publisher.answerTo(Promise.reject(new Error("maximum bytes")))).rejects;
    await failed.toMatchObject({
      code: "stream_unavailable",
      options: { detail: "the stream is at its limit" },
    });
    const unanswered = publisher.answerTo(new Promise(() => undefined));
    await Promise.all([
      expect(unanswered).rejects.toMatchObject({ code: "stream_unavailable" }),
      ...nats.nodes.map((node) => node.kill()),
    ]);
  },
);

/** A connection that keeps what is published, for a test that answers it. */
const keepingConnection = () => {
  const published: { subject: string; reply: string }[] = [];
  let answer: (error: Error | null, message: object) => void = () => undefined;
  const connection = {
    subscribe: (_: string, { callback }: { callback: typeof answer }) => {
      answer = callback;
    },
    publish: (subject: string, _: Uint8Array, { reply }: { reply: string }) =>
      void published.push({ subject, reply }),
    status: async function* () {},
  } as unknown as NatsConnection;
  const acknowledge = (seq: number) => {
    const { reply } = published[seq - 1] ?? { reply: "" };
    answer(null, { subject: reply, json: () => ({ seq }) });
  };
  return { connection, published, acknowledge, refuse: (cause: Error) => answer(cause, {}) };
};

const messageTo = (subject: string) => ({
  subject,
  expected: 0,
  headers: {},
  payload: new Uint8Array(),
});

it("publishes in the order of the calls, and never more than the window", async () => {
  const { connection, published, acknowledge } = keepingConnection();
  const observe = { published: () => undefined, publishFailed: () => undefined };
  const publisher = createPublisher({ connection, clock: systemClock, observe, windowMax: 1 });
  const first = publisher.publish(messageTo("first"));
  const second = publisher.publish(messageTo("second"));
  await expect.poll(() => published.length).toBe(1);
  acknowledge(1);
  const third = publisher.publish(messageTo("third"));
  expect(await first).toBe(1);
  await expect.poll(() => published.length).toBe(2);
  expect(published.map(({ subject }) => subject)).toEqual(["first", "second"]);
  acknowledge(2);
  expect(await second).toBe(2);
  await expect.poll(() => published.length).toBe(3);
  acknowledge(3);
  expect(await third).toBe(3);
  publisher.close();
});

it("rejects what waits when the server does not let it read acknowledgements", async () => {
  const { connection, published, refuse } = keepingConnection();
  const failures: string[] = [];
  const observe = {
    published: () => undefined,
    publishFailed: (code: string) => void failures.push(code),
  };
  const publisher = createPublisher({ connection, clock: systemClock, observe });
  const rejected = expect(publisher.publish(messageTo("one"))).rejects.toMatchObject({
    code: "stream_unavailable",
  });
  await expect.poll(() => published.length).toBe(1);
  refuse(new Error("Permissions Violation for Subscription"));
  await rejected;
  expect(failures).toEqual(["forbidden"]);
  publisher.close();
});
