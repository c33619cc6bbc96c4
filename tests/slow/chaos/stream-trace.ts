import { AckPolicy, DeliverPolicy, jetstream } from "@nats-io/jetstream";
import { streamSettings } from "#tests/support/ingest/nats-sink.ts";
import type { ProxiedNats } from "./proxied-nats.ts";

const { stream } = streamSettings;
/** A consumer is on the node that the servers choose. */
const consumersMax = 24;
/** What is read again: a replica may have differed after the last call. */
const overlap = 2_000;
const differencesShown = 5;

/**
 * Creates the function that reads on in the messages of each replica, and returns one line: the stream's leader and end, and where a replica
 * has another message than one that was read before. An ephemeral consumer without replicas of its own reads the store of its node.
 */
export const createStreamTrace = ({ manager, connection, nodes }: ProxiedNats) => {
  /** By sequence: what the first replica had that was read, and where another one differed. */
  const seen = new Map<number, string>();
  const differing = new Map<number, string>();
  const through = new Map(nodes.map(({ name }) => [name, 0]));

  const readReplica = async (after: number) => {
    const { name, cluster, num_pending } = await manager.consumers.add(stream, {
      ack_policy: AckPolicy.None,
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: after + 1,
      headers_only: true,
      mem_storage: true,
      inactive_threshold: 30_000_000_000,
    });
    const node = cluster?.leader ?? "";
    const note = (seq: number, what: string) => {
      const before = seen.get(seq) ?? what;
      seen.set(seq, before);
      if (before !== what) differing.set(seq, `${seq}: was ${before}, ${node} has ${what}`);
    };
    let next = after + 1;
    let left = num_pending;
    if (left === 0) return undefined;
    const consumer = await jetstream(connection).consumers.get(stream, name);
    // A server of 2.9 may count more as pending than there is: then a fetch ends without a message.
    for (let before = left + 1; left > 0 && left < before; ) {
      before = left;
      for await (const { seq, subject, headers } of await consumer.fetch({
        max_messages: Math.min(left, 2_000),
        expires: 1_000,
      })) {
        for (; next < seq; next += 1) note(next, "nothing");
        const first = headers?.get("Svc-First-Sequence");
        const last = headers?.get("Svc-Last-Sequence");
        note(seq, `${subject.split(".").slice(2).join(".")} ${first || "fence"}-${last}`);
        next = seq + 1;
        left -= 1;
      }
    }
    await manager.consumers.delete(stream, name);
    through.set(node, next - 1);
    return node;
  };

  return async () => {
    const after = Math.max(0, Math.min(...through.values()) - overlap);
    const unread = new Set(nodes.map(({ name }) => name));
    const known = new Set(differing.keys());
    for (let times = 0; unread.size > 0 && times < consumersMax; times += 1)
      unread.delete((await readReplica(after).catch(() => undefined)) ?? "");
    const info = await manager.streams.info(stream).catch(() => undefined);
    const fresh = [...differing].flatMap(([seq, text]) => (known.has(seq) ? [] : [text]));
    return JSON.stringify({
      leader: info?.cluster?.leader,
      last: info?.state.last_seq,
      replicas: Object.fromEntries(through),
      unread: [...unread],
      differences: fresh.length,
      first: fresh.slice(0, differencesShown),
    });
  };
};
