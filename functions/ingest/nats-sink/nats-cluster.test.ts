import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../../kit/clock.ts";
import { type RunningNats, startNats } from "../../../scripts/lab/nats-servers.ts";
import { startTestIngest, type TestIngest } from "../../../tests/ingest.ts";
import { natsSinkOn, readStream } from "../../../tests/nats-sink.ts";
import { startNumberedLoad } from "../../../tests/slow/chaos/load.ts";

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

describe("the sink of NATS on a cluster of three", () => {
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
      const own = stored.filter(({ headers }) => headers["Svc-Queue"] === Buffer.from(queueId).toString("hex"));
      const sequences = own.map(({ sequence }) => sequence);
      expect(sequences.slice(0, Number(acked()))).toEqual(
        Array.from({ length: Number(acked()) }, (_, index) => index + 1),
      );
      expect(new Set(sequences).size).toBe(sequences.length);
      expect(own.at(0)?.payload).toBe(`${hostId} 1`);
    }
  });
});
