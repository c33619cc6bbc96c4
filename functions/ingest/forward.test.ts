import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ForwardRequestSchema } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { type ForwardMessage, forward } from "./forward.ts";

type Init = NonNullable<MessageInitShape<typeof ForwardRequestSchema>["message"]>;
const open: Init = { case: "open", value: {} };
const frame = (previousSequence: number): Init => ({
  case: "frame",
  value: { previousSequence: BigInt(previousSequence) },
});

/** A stream in the test's hands: `send` groups of messages, `commit` frames in any order. */
const start = () => {
  const sent: { group: ForwardMessage[] | null }[] = [];
  let arrived = Promise.withResolvers<void>();
  let pulls = 0;
  async function* requests() {
    for (;;) {
      pulls++;
      while (sent.length === 0) await arrived.promise;
      const { group } = sent.shift() ?? { group: null };
      if (group === null) return;
      yield group;
    }
  }
  const frames = new Map<string, PromiseWithResolvers<string>>();
  const [cut, gone] = [new AbortController(), new AbortController()];
  let readable = Promise.resolve();
  const answers = forward<string>(
    requests(),
    {
      open: async () => "opened",
      accept: ({ previousSequence }) => {
        const ack = Promise.withResolvers<string>();
        frames.set(String(previousSequence), ack);
        return ack.promise;
      },
      acceptExamined: () => expect.fail("no frame was examined"),
      untilReadable: () => readable,
    },
    { cut: cut.signal, gone: gone.signal },
  );
  const post = (group: (typeof sent)[number]["group"]) => {
    sent.push({ group });
    arrived.resolve();
    arrived = Promise.withResolvers();
  };
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    cut,
    gone,
    answers,
    pulls: () => pulls,
    setReadable: (promise: Promise<void>) => {
      readable = promise;
    },
    send: async (...messages: Init[]) => {
      post(messages.map((message) => create(ForwardRequestSchema, { message }).message));
      await settle();
    },
    end: async () => {
      post(null);
      await settle();
    },
    commit: async (...sequences: number[]) => {
      for (const sequence of sequences) frames.get(String(sequence))?.resolve(`ack ${sequence}`);
      await settle();
    },
    refuse: async (sequence: number, cause: Error) => {
      frames.get(String(sequence))?.reject(cause);
      await settle();
    },
  };
};

describe("forward", () => {
  it("answers in the order of the frames, as many at a time as are ready", async () => {
    const stream = start();
    const first = stream.answers.next();
    await stream.send(open, frame(1), frame(2));
    await stream.send(frame(3));
    expect((await first).value).toEqual(["opened"]);
    const next = stream.answers.next();
    await stream.commit(2, 3);
    await stream.commit(1);
    expect((await next).value).toEqual(["ack 1", "ack 2", "ack 3"]);
    const last = stream.answers.next();
    await stream.end();
    expect((await last).done).toBe(true);
  });

  it("acknowledges what stands before a refusal, then throws it, and reads no more", async () => {
    const stream = start();
    const opened = stream.answers.next();
    await stream.send(open, frame(1), frame(2), frame(3));
    await opened;
    await stream.refuse(2, new Error("refused"));
    await stream.commit(3);
    const acked = stream.answers.next();
    await stream.commit(1);
    expect((await acked).value).toEqual(["ack 1"]);
    await expect(stream.answers.next()).rejects.toThrow("refused");
  });

  it("acknowledges what was read when the client is gone or a later message is bad", async () => {
    const stream = start();
    const opened = stream.answers.next();
    await stream.send(open, frame(1));
    await opened;
    await stream.send(open);
    stream.gone.abort(new Error("gone"));
    const acked = stream.answers.next();
    await stream.commit(1);
    expect((await acked).value).toEqual(["ack 1"]);
    await expect(stream.answers.next()).rejects.toMatchObject({ code: "frame_invalid" });
  });

  it("G4: a cut ends it at once, whatever is pending", async () => {
    const stream = start();
    const opened = stream.answers.next();
    await stream.send(open, frame(1));
    await opened;
    const pending = stream.answers.next();
    stream.cut.abort(new Error("revoked"));
    await expect(pending).rejects.toThrow("revoked");
  });

  it("reads no further while it is held back, and no more than 256 frames ahead of the acks", async () => {
    const stream = start();
    const opened = stream.answers.next();
    await stream.send(open);
    await opened;
    const before = stream.pulls();
    const budget = Promise.withResolvers<void>();
    stream.setReadable(budget.promise);
    await stream.send(frame(1));
    await stream.send(frame(2));
    expect(stream.pulls()).toBe(before);
    budget.resolve();
    await stream.send(...Array.from({ length: 300 }, (_, index) => frame(index + 3)));
    const full = stream.pulls();
    await stream.send(frame(400));
    expect(stream.pulls()).toBe(full);
    const acks = stream.answers.next();
    await stream.commit(...Array.from({ length: 302 }, (_, index) => index + 1));
    expect((await acks).value?.length).toBe(302);
    const resumed = stream.answers.next();
    await stream.commit(400);
    expect((await resumed).value).toEqual(["ack 400"]);
  });
});
