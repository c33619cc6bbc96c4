import { connect } from "@nats-io/transport-node";
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
