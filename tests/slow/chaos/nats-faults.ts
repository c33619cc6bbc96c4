import { systemClock } from "../../../kit/clock.ts";
import type { NatsNode } from "../../../scripts/lab/nats-servers.ts";
import { type Fault, type Scene, seconds } from "./fault.ts";

const stream = "SVC_INGEST";

const natsOf = ({ nats }: Scene) => {
  if (nats === null) throw new Error("the sink is not NATS");
  return nats;
};

/** Kills a node and starts it again on its files. */
const restart = async (node: NatsNode): Promise<void> => {
  await node.kill();
  await node.start();
};

const stop = async (nodes: readonly NatsNode[], ms: number): Promise<void> => {
  for (const node of nodes) node.signal("SIGSTOP");
  await systemClock.sleep(ms);
  for (const node of nodes) node.signal("SIGCONT");
};

/** A new leader is elected after at most 9 s, and collectors have backed off meanwhile. */
const election = { max: 30_000 };

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
      return stop([nodes[Math.floor(draw * nodes.length)] as NatsNode], seconds((draw * nodes.length) % 1, 1, 12));
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
};
