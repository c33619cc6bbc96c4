import { systemClock } from "#kit/clock.ts";
import type { NatsNode } from "#scripts/lab/nats-servers.ts";
import { type Fault, type Scene, seconds } from "./fault.ts";
import type { ProxiedNats } from "./proxied-nats.ts";

const stream = "SVC_INGEST";

const natsOf = ({ nats }: Scene) => {
  if (nats === null) throw new Error("the sink is not NATS");
  return nats;
};

/** Kills a node and starts it again on its files. */
const restart = async (node: NatsNode) => {
  await node.kill();
  await node.start();
};

const stop = async (nodes: readonly NatsNode[], ms: number) => {
  for (const node of nodes) node.signal("SIGSTOP");
  await systemClock.sleep(ms);
  for (const node of nodes) node.signal("SIGCONT");
};

/** A new leader is elected after at most 9 s, and collectors have backed off meanwhile. */
const election = { max: 30_000 };

/** Fills the disks, and frees them; a node whose disk was full stores nothing until it is started again. */
const fillDisks = async (nats: ProxiedNats, nodes: readonly NatsNode[], ms: number) => {
  const disks = nats.disks.filter((_, index) => nodes.includes(nats.nodes[index] as NatsNode));
  for (const disk of disks) disk.fill();
  try {
    await systemClock.sleep(ms);
  } finally {
    for (const disk of disks) disk.free();
  }
  await Promise.all(nodes.map(restart));
};

/** Faults of the cluster behind the sink of NATS. A limit that changes under load is none of them: its replicas then differ (docs/nats.md). */
export const natsFaults: Readonly<Record<string, Fault>> = {
  "kill a NATS node (SIGKILL)": {
    id: "D1",
    sink: "nats",
    recoveryMs: election,
    inject: (scene, draw) => {
      const { nodes } = natsOf(scene);
      return restart(nodes[Math.floor(draw * nodes.length)] as NatsNode);
    },
  },
  "kill the stream's leader (SIGKILL)": {
    id: "D2",
    sink: "nats",
    recoveryMs: election,
    inject: async (scene) => restart(await natsOf(scene).leaderOf(stream)),
  },
  "stop a NATS node (SIGSTOP)": {
    id: "D3",
    sink: "nats",
    recoveryMs: election,
    inject: (scene, draw) => {
      const { nodes } = natsOf(scene);
      return stop(
        [nodes[Math.floor(draw * nodes.length)] as NatsNode],
        seconds((draw * nodes.length) % 1, 1, 12),
      );
    },
  },
  "stop two NATS nodes (SIGSTOP)": {
    id: "D8",
    sink: "nats",
    recoveryMs: election,
    inject: (scene, draw) => {
      const { nodes } = natsOf(scene);
      const running = Math.floor(draw * nodes.length);
      return stop(
        nodes.filter((_, index) => index !== running),
        seconds((draw * nodes.length) % 1, 1, 12),
      );
    },
  },
  "fill the disk of the stream's leader": {
    id: "D5",
    sink: "nats",
    recoveryMs: election,
    inject: async (scene, draw) => {
      const nats = natsOf(scene);
      await fillDisks(nats, [await nats.leaderOf(stream)], seconds(draw, 3, 10));
    },
  },
  "fill the disks of all NATS nodes": {
    id: "D5",
    sink: "nats",
    recoveryMs: election,
    inject: async (scene, draw) => {
      const nats = natsOf(scene);
      await fillDisks(nats, nats.nodes, seconds(draw, 3, 10));
    },
  },
  "reset the NATS connections": {
    id: "D8",
    sink: "nats",
    recoveryMs: { max: 15_000 },
    inject: async (scene) => {
      for (let times = 0; times < 5; times += 1) {
        for (const proxy of natsOf(scene).proxies) proxy.reset();
        await systemClock.sleep(200);
      }
    },
  },
  "black-hole the NATS connections": {
    id: "D8",
    sink: "nats",
    recoveryMs: { max: 15_000 },
    inject: async (scene) => {
      for (const proxy of natsOf(scene).proxies) proxy.swallowOpen();
      await systemClock.sleep(500);
    },
  },
  "black-hole NATS": {
    id: "D8",
    sink: "nats",
    recoveryMs: { max: 15_000 },
    inject: async (scene, draw) => {
      const { proxies } = natsOf(scene);
      for (const proxy of proxies) proxy.swallow(true);
      await systemClock.sleep(seconds(draw, 2, 10));
      for (const proxy of proxies) {
        // A connection that lost bytes stays lost.
        proxy.swallowOpen();
        proxy.swallow(false);
      }
    },
  },
};
