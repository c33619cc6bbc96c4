import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { canStartNats, type RunningNats, startNats } from "#scripts/lab/nats-servers.ts";
import { startNumberedLoad } from "#tests/slow/chaos/load.ts";
import { frame, newQueue, openSession, testHost } from "#tests/support/frames.ts";
import { connectForeign, forwardAll, submit } from "#tests/support/grpc-client.ts";
import { natsSinkOn, type Publish, readStream } from "#tests/support/ingest/nats-sink.ts";
import { startTestIngest, type TestIngest } from "#tests/support/ingest.ts";
import { testRun } from "#tests/support/stored-envelopes.ts";
import { encodeToken } from "./subjects.ts";

const canStart = await canStartNats();

let nats: RunningNats;
let test: TestIngest;

beforeAll(async () => {
  nats = await startNats({ nodes: 3 });
  test = await startTestIngest({ sink: natsSinkOn(nats, { replicas: 3 }) });
});
afterAll(async () => {
  await test.close();
  await nats.stop();
});

/** Sends a copy of a message with other headers, expecting the same one as the last of its subject, as a session that is replaced does. */
const sendBeside = async (
  subject: string,
  stream: string,
  headers: Readonly<Record<string, string>>,
  payload: Uint8Array | string = "",
): Promise<(publish: Publish) => void> => {
  const last = await nats.manager.streams.getMessage(stream, { last_by_subj: subject });
  if (last === null) throw new Error("the subject has no message");
  const head = last.header;
  head.set("Nats-Expected-Last-Subject-Sequence", String(last.seq));
  for (const [name, value] of Object.entries(headers)) head.set(name, value);
  return (publish) => publish(subject, payload, { headers: head });
};

/** Starts a second core, whose messages go through `around`, until the test ends. Returns a client of each core. */
const connectToBoth = async (
  around: (publish: Publish, ...message: Parameters<Publish>) => void,
) => {
  const other = await startTestIngest({
    sink: natsSinkOn(nats, { replicas: 3, around }),
    database: test.database,
  });
  onTestFinished(() => other.close());
  const clients = [
    connectForeign(test, await test.client({})),
    connectForeign(other, await other.client({})),
  ] as const;
  onTestFinished(() => {
    for (const client of clients) client.close();
  });
  return clients;
};

describe.skipIf(!canStart)(
  "a takeover, while the server stores what an earlier session had sent it",
  () => {
    // nats-server before 2.9.21 accepts both of two messages that expect the same one, when it receives the second before it stores the first.
    it.each([
      { sender: "with sessions", isBefore: true },
      { sender: "with sessions", isBefore: false },
      { sender: "without sessions", isBefore: true },
      { sender: "without sessions", isBefore: false },
    ])(
      "stores each envelope of a sender $sender once (sent before the fence: $isBefore)",
      async ({ sender, isBefore }) => {
        const queue = newQueue();
        const earlier = newQueue();
        const later = newQueue();
        const name = `${encodeToken(testHost)}.${queue.toString("hex")}`;
        let beside: ((publish: Publish) => void) | undefined;
        const around = (publish: Publish, ...[subject, payload, options]: Parameters<Publish>) => {
          const send = options?.headers?.has("Svc-Fence") ? beside : undefined;
          if (send) beside = undefined;
          if (isBefore) send?.(publish);
          publish(subject, payload, options);
          if (!isBefore) send?.(publish);
        };
        const clients = await connectToBoth(around);
        const send = (index: 0 | 1, from: number, through: number) =>
          sender === "without sessions"
            ? submit(clients[index], frame(queue, from, through))
            : forwardAll(clients[index], [
                openSession(queue, {
                  session_id: index === 0 ? earlier : later,
                  previous_session_ids: index === 0 ? [] : [earlier],
                }),
                { frame: frame(queue, from, through) },
              ]);
        expect((await send(0, 1, 1)).error).toBeUndefined();
        const block = testRun([
          { sequence: 2n, kind: "log_line", payload: Buffer.from("line 2") },
        ]).bytes;
        const headers = {
          "Svc-Sequence": "2",
          "Svc-First-Sequence": "2",
          "Svc-Last-Sequence": "2",
          "Svc-Raw-Bytes": String(block.length),
        };
        beside = await sendBeside(`svc.ingest.log_line.${name}`, "SVC_INGEST", headers, block);
        expect((await send(1, 2, 3)).error).toBeUndefined();
        expect(beside).toBeUndefined();
        const stored = (await readStream(nats)).filter(
          ({ headers }) => headers["Svc-Queue"] === queue.toString("hex"),
        );
        // A server from 2.9.21 on rejects what it receives after the fence, so that core stores the second line with the third.
        expect(stored.flatMap(({ sequences }) => sequences)).toEqual([1, 2, 3]);
        expect(stored.flatMap(({ texts }) => texts)).toEqual(["line 1", "line 2", "line 3"]);
      },
    );

    it("keeps the session that takes over, although the earlier one's state is stored after it", async () => {
      const queue = newQueue();
      const earlier = newQueue();
      const later = newQueue();
      const subject = `svc.queue.${encodeToken(testHost)}.${queue.toString("hex")}`;
      let beside: ((publish: Publish) => void) | undefined;
      const around = (publish: Publish, ...message: Parameters<Publish>) => {
        publish(...message);
        if (message[0] !== subject) return;
        beside?.(publish);
        beside = undefined;
      };
      const clients = await connectToBoth(around);
      await forwardAll(clients[0], [
        openSession(queue, { session_id: earlier }),
        { frame: frame(queue, 1, 1) },
      ]);
      beside = await sendBeside(subject, "SVC_INGEST_QUEUES", { "Svc-Kinds": "log_line" });
      const claims = { session_id: later, previous_session_ids: [earlier] };
      const taken = await forwardAll(clients[1], [
        openSession(queue, claims),
        { frame: frame(queue, 2, 2) },
      ]);
      expect(taken.error).toBeUndefined();
      expect(beside).toBeUndefined();
      const last = await nats.manager.streams.getMessage("SVC_INGEST_QUEUES", {
        last_by_subj: subject,
      });
      expect(last?.header.get("Svc-Session")).toBe(later.toString("hex"));
    });
  },
);

describe.skipIf(!canStart)("the sink of NATS on a cluster of three", () => {
  it("keeps everything acknowledged, once and in order, when two nodes stop and when the leader is killed", async () => {
    const hosts = ["a", "b", "c"].map((name) => `spiffe://fleet.test/${name}`);
    const client = (uri: string) => test.client({ uri });
    const load = await startNumberedLoad(hosts, { port: test.port, caPem: test.caPem, client });
    const acks = () => load.ackTimes.map((times) => times.length);
    const untilAllMoved = (since: number[]) =>
      expect.poll(() => acks().every((count, index) => count > (since[index] ?? 0) + 2)).toBe(true);
    await untilAllMoved(acks());

    const leader = await nats.leaderOf("SVC_INGEST");
    const followers = nats.nodes.filter((node) => node !== leader);
    for (const node of followers) node.signal("SIGSTOP");
    const stopped = acks();
    await systemClock.sleep(500);
    for (const node of followers) node.signal("SIGCONT");
    await untilAllMoved(stopped);

    await leader.kill();
    const killed = acks();
    await untilAllMoved(killed);
    await leader.start();
    await load.finish();

    const stored = await readStream(nats);
    for (const { hostId, queueId, acked } of load.queues) {
      const own = stored.filter(
        ({ headers }) => headers["Svc-Queue"] === Buffer.from(queueId).toString("hex"),
      );
      const sequences = own.flatMap((message) => message.sequences);
      expect(sequences.slice(0, Number(acked()))).toEqual(
        Array.from({ length: Number(acked()) }, (_, index) => index + 1),
      );
      expect(new Set(sequences).size).toBe(sequences.length);
      expect(own.at(0)?.texts[0]).toBe(`${hostId} 1`);
    }
  });
});
