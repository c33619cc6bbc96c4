import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { OpenSchema, StatusSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { runOf } from "../store/ingest/envelope-run.ts";
import {
  createPushedAnswers,
  type DecodeMessage,
  type ForwardMessage,
  forward,
} from "./forward.ts";

const open: ForwardMessage = { case: "open", value: create(OpenSchema) };
const status: ForwardMessage = { case: "status", value: create(StatusSchema) };
const frame = (previousSequence: number, rejections = 0, rawBytes = 0): ForwardMessage => {
  const queue = { hostId: "host", queueId: new Uint8Array(16) };
  const sequence = BigInt(previousSequence);
  const rejection = { sequence, code: "kind_invalid" as const, message: "" };
  const rejected = Array.from({ length: rejections }, () => rejection);
  const value = {
    ...queue,
    previousSequence: sequence,
    lastSequence: sequence,
    receivedAt: 0,
    run: { ...runOf([]), rawBytes },
  };
  return { case: "frame", value: { frame: value, rejected, discarded: [], bytes: 1 } };
};

/** A stream under the test's control: `send` groups of messages, `commit` frames in any order. */
const start = ({ open = async () => "opened" } = {}) => {
  const sent: { group: DecodeMessage[] | null }[] = [];
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
  const abort = new AbortController();
  const disconnected = new AbortController();
  let readable: Promise<void> | undefined;
  let turn = Promise.resolve();
  const pushed = createPushedAnswers<string>();
  const answers = forward<string>(
    requests(),
    {
      open,
      accept: ({ frame }) => {
        const ack = Promise.withResolvers<string>();
        frames.set(String(frame.previousSequence), ack);
        return ack.promise;
      },
      status: () => pushed.push("status", "status"),
      account: async () => "account",
      untilReadable: () => readable,
      nextTurn: () => turn,
      mayAccept: () => !abort.signal.aborted,
    },
    { abort: abort.signal, disconnected: disconnected.signal, pushed },
  );
  const post = (group: (typeof sent)[number]["group"]) => {
    sent.push({ group });
    arrived.resolve();
    arrived = Promise.withResolvers();
  };
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    abort,
    disconnected,
    pushed,
    answers,
    pulls: () => pulls,
    accepted: () => [...frames.keys()],
    setReadable: (promise: Promise<void>) => {
      readable = promise;
      void promise.then(() => (readable = undefined)).catch(() => undefined);
    },
    holdTurn: () => {
      const held = Promise.withResolvers<void>();
      turn = held.promise;
      return held.resolve;
    },
    send: async (...messages: (ForwardMessage | DecodeMessage)[]) => {
      post(messages.map((message) => (typeof message === "function" ? message : () => message)));
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
    reject: async (sequence: number, cause: Error) => {
      frames.get(String(sequence))?.reject(cause);
      await settle();
    },
  };
};

/** A stream that is open, and has what was sent with its Open. */
const startOpened = async (...messages: ForwardMessage[]) => {
  const stream = start();
  const opened = stream.answers.next();
  await stream.send(open, ...messages);
  await opened;
  return stream;
};

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

it("sends what is pushed after Opened, and before acks that wait; of one kind the newest", async () => {
  const stream = start();
  const opened = stream.answers.next();
  await stream.send(open, frame(1), status);
  expect((await opened).value).toEqual(["opened", "status"]);
  stream.pushed.push("directive 1", "directive");
  stream.pushed.push("directive 2", "directive");
  expect((await stream.answers.next()).value).toEqual(["directive 2"]);
  const acked = stream.answers.next();
  await stream.commit(1);
  expect((await acked).value).toEqual(["ack 1"]);
});

it("sends what is pushed at once where it can, and never before what waits", () => {
  const sent: string[] = [];
  let canSend = true;
  const pushed = createPushedAnswers((answer: string) => canSend && sent.push(answer) > 0);
  pushed.push("first", "status");
  canSend = false;
  pushed.push("second", "status");
  canSend = true;
  pushed.push("third", "directive");
  expect(sent).toEqual(["first"]);
  expect(pushed.take()).toEqual(["second", "third"]);
  pushed.push("fourth", "status");
  expect(sent).toEqual(["first", "fourth"]);
});

it("rejects a second Open, and a status before Open", async () => {
  for (const [first, second] of [
    [open, open],
    [status, open],
  ] as const) {
    const stream = start();
    const ended = (async () => {
      for await (const _ of stream.answers);
    })();
    ended.catch(() => undefined);
    await stream.send(first, second);
    await expect(ended).rejects.toMatchObject({ code: "frame_invalid" });
  }
});

it("accepts no frame that comes with an Open which is rejected: it would belong to no session", async () => {
  const stream = start({ open: () => Promise.reject(new Problem("queue_forked")) });
  const rejected = expect(stream.answers.next()).rejects.toMatchObject({ code: "queue_forked" });
  await stream.send(open, frame(1));
  await stream.send(frame(2));
  await rejected;
  expect(stream.accepted()).toEqual([]);
});

it("acknowledges the frames before a rejected one, then throws its error, and reads no more", async () => {
  const stream = await startOpened(frame(1), frame(2), frame(3));
  await stream.reject(2, new Error("rejected"));
  await stream.commit(3);
  const acked = stream.answers.next();
  await stream.commit(1);
  expect((await acked).value).toEqual(["ack 1"]);
  await expect(stream.answers.next()).rejects.toThrow("rejected");
});

it("acknowledges the frames read before the client disconnects or sends an invalid message", async () => {
  const stream = await startOpened(frame(1));
  await stream.send(open);
  stream.disconnected.abort(new Error("disconnected"));
  const acked = stream.answers.next();
  await stream.commit(1);
  expect((await acked).value).toEqual(["ack 1"]);
  await expect(stream.answers.next()).rejects.toMatchObject({ code: "frame_invalid" });
});

it("acknowledges the frames before one of the same group that cannot be decoded", async () => {
  const stream = await startOpened();
  const acked = stream.answers.next();
  await stream.send(frame(1), () => {
    throw new Error("malformed");
  });
  await stream.commit(1);
  expect((await acked).value).toEqual(["ack 1"]);
  await expect(stream.answers.next()).rejects.toThrow("malformed");
});

it("G4: ends at once when it is aborted, whatever is pending, and accepts no more", async () => {
  const stream = await startOpened(frame(1));
  const pending = stream.answers.next();
  stream.abort.abort(new Error("revoked"));
  await expect(pending).rejects.toThrow("revoked");
  await stream.send(frame(2));
  expect(stream.accepted()).toEqual(["1"]);
});

it("O2: decodes no message of a chunk while those before it fill the budget", async () => {
  const stream = start();
  const readable = Promise.withResolvers<void>();
  const opened = stream.answers.next();
  const filling = () => {
    stream.setReadable(readable.promise);
    return frame(1);
  };
  await stream.send(open, filling, frame(2));
  await opened;
  expect(stream.accepted()).toEqual(["1"]);
  readable.resolve();
  await stream.send(frame(3));
  expect(stream.accepted()).toEqual(["1", "2", "3"]);
});

it("pauses reading on request, and 256 frames ahead of the acks", async () => {
  const stream = await startOpened();
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

it("leaves a turn to other streams for each 8 MiB that it unpacks", async () => {
  const stream = await startOpened();
  const endTurn = stream.holdTurn();
  const large = [1, 2, 3].map((sequence) => frame(sequence, 0, 4 * 1024 * 1024));
  await stream.send(...large);
  expect(stream.accepted()).toEqual(["1", "2"]);
  endTurn();
  await stream.send(frame(4));
  expect(stream.accepted()).toEqual(["1", "2", "3", "4"]);
});

it("G2: reads no more while 10,000 rejections wait for their acks to leave", async () => {
  const stream = await startOpened(frame(1, 9_999));
  await stream.send(frame(2, 1));
  const full = stream.pulls();
  await stream.send(frame(3));
  expect(stream.pulls()).toBe(full);
  const acks = stream.answers.next();
  await stream.commit(1, 2);
  expect((await acks).value?.length).toBe(2);
  await stream.send(frame(4));
  expect(stream.pulls()).toBeGreaterThan(full);
});
