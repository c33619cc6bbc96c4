import type { JetStreamManager } from "@nats-io/jetstream";
import { headers } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { canStartNats, type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { streamSettings } from "#tests/support/ingest/nats-sink.ts";
import { openStreamStore } from "#tests/support/stored-envelopes.ts";
import { createStreamChains } from "./stream-chains.ts";
import { type StreamMessage, storedMessage } from "./stream-pulls.ts";

const { stream } = streamSettings;

describe.skipIf(!(await canStartNats()))(
  "what a consumer on a replica that differs delivers",
  () => {
    let nats: RunningNats;
    beforeAll(async () => {
      nats = await startNats();
    });
    afterAll(() => nats.stop());

    /** Stores blocks of two hosts in turn, and returns the stream's messages. */
    const storeBlocks = async (count: number) => {
      const database = await useTestDatabase();
      const store = await openStreamStore(nats, database);
      onTestFinished(async () => {
        await store.close();
        for (const name of [stream, `${stream}_QUEUES`]) await nats.manager.streams.delete(name);
      });
      for (let block = 0; block < count; block += 1)
        await store.lines(`h${block % 2}`, [`line ${block}`]);
      const { state } = await nats.manager.streams.info(stream);
      const sequences = Array.from({ length: state.last_seq }, (_, index) => index + 1);
      const found = await Promise.all(
        sequences.map((seq) => nats.manager.streams.getMessage(stream, { seq })),
      );
      return found.filter((message) => message !== null).map(storedMessage);
    };
    const chainsFrom = (position: number, log = createTestLog()) =>
      createStreamChains({ manager: nats.manager, stream, position, log });
    const blocksOf = (messages: readonly StreamMessage[], host: string) =>
      messages
        .filter(
          ({ subject, headers }) => subject.includes(`.${host}.`) && !headers?.has("Svc-Fence"),
        )
        .map(({ headers }) => headers?.get("Svc-First-Sequence"));

    it("is completed with what the replica lacks, in the order of each subject, across chunks", async () => {
      const all = await storeBlocks(12);
      const blocks = all.filter(({ headers }) => !headers?.has("Svc-Fence"));
      const lacking = new Set(blocks.slice(2, 7));
      const delivered = all.filter((message) => !lacking.has(message));
      const chains = chainsFrom(0);
      const one = await chains.complete(delivered.slice(0, 3));
      const two = await chains.complete(delivered.slice(3));
      const complete = [...one.messages, ...two.messages];
      for (const host of ["h0", "h1"])
        expect(blocksOf(complete, host)).toEqual(blocksOf(all, host));
      expect(complete).toHaveLength(all.length);
    });

    it("is without the blocks that the replica has in place of others, which come again", async () => {
      const all = await storeBlocks(12);
      const start = all.length - 8;
      // As a replica that skipped four, stored the next four in their place, and then followed the others again.
      const shifted = all
        .slice(-4)
        .map((message, index) => ({ ...message, sequence: all[start + index]?.sequence ?? 0 }));
      const log = createTestLog();
      const { messages, lost } = await chainsFrom(0, log).complete([
        ...all.slice(0, start),
        ...shifted,
        ...all.slice(-4),
      ]);
      for (const host of ["h0", "h1"])
        expect(blocksOf(messages, host)).toEqual(blocksOf(all, host));
      expect(lost).toBe(0);
      expect(log.text()).toContain("skipped a block that the replica has twice");
    });

    it("is left as it is where what came before was delivered to another process, or deleted", async () => {
      const all = await storeBlocks(8);
      const [first, ...rest] = all.slice(-4);
      const position = (first?.sequence ?? 0) - 1;
      expect(await chainsFrom(position + 1).complete(rest)).toEqual({ messages: rest, lost: 0 });
      await nats.manager.streams.deleteMessage(stream, first?.sequence ?? 0);
      expect(await chainsFrom(position).complete(rest)).toEqual({ messages: rest, lost: 0 });
    });

    it("is counted as lost where the leader has another message in its place", async () => {
      const all = await storeBlocks(8);
      const log = createTestLog();
      const [other, ...rest] = all.slice(-4);
      const renamed = rest.map((message) => ({ ...message, subject: `${message.subject}x` }));
      const { messages, lost } = await chainsFrom((other?.sequence ?? 0) - 1, log).complete(
        renamed,
      );
      expect({ messages, lost }).toEqual({ messages: renamed, lost: 1 });
      expect(log.text()).toContain("the replica lacks messages");
    });

    it("is read back no further than to what expects itself, as a server that compares nothing has stored it", async () => {
      const all = await storeBlocks(8);
      const read: number[] = [];
      const getMessage: JetStreamManager["streams"]["getMessage"] = async (name, query) => {
        const stored = await nats.manager.streams.getMessage(name, query);
        const header = headers();
        header.set("Nats-Expected-Last-Subject-Sequence", String(stored?.seq));
        read.push(stored?.seq ?? 0);
        return (
          stored &&
          new Proxy(stored, {
            get: (of, key) => (key === "header" ? header : Reflect.get(of, key)),
          })
        );
      };
      const streams = Object.assign(Object.create(nats.manager.streams), { getMessage });
      const chains = createStreamChains({
        manager: { streams },
        stream,
        position: 0,
        log: createTestLog(),
      });
      const lacking = all.at(-4);
      const { lost } = await chains.complete(all.filter((message) => message !== lacking));
      expect({ lost, read }).toEqual({ lost: 0, read: [lacking?.sequence] });
    });
  },
);
