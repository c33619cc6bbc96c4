/**
 * JetStream as ingest relies on it: streams of messages on subjects, each stored only if the last one of its subject has the expected
 * sequence. Invariants of the model, as of the servers:
 * - What is acknowledged is stored; what is stored may be acknowledged late, or never.
 * - A stream stores in the order in which its leader received. When the leader is lost, a prefix of what it had not stored is stored, none
 *   of it is acknowledged, and every connection is lost.
 * - Servers before 2.9.21 compare the expected sequence when they receive a message, later ones when they store it.
 */
import { MsgHdrsImpl } from "@nats-io/transport-node";
import {
  type ConsumerCall,
  createStreamConsumers,
  type StreamConsumers,
} from "./stream-consumers.ts";
import type { Process, World } from "./world.ts";

/** A message that is stored. */
export interface StreamMessageStored {
  readonly seq: number;
  readonly subject: string;
  readonly headers: Uint8Array;
  readonly data: Uint8Array;
  readonly time: string;
}

/** A stream. */
export interface ModelStream {
  readonly config: Readonly<Record<string, unknown>>;
  readonly created: string;
  lastSeq: number;
  messages: StreamMessageStored[];
}

/** A message on its way into a stream. */
export interface Published {
  subject: string;
  headers: Uint8Array;
  data: Uint8Array;
}

/** What a stream answers to a message. */
export type PublishAnswer =
  | { seq: number }
  | { error: { code: number; err_code: number; description: string } };

/** How the servers differ from real ones: a planted fault. */
export interface StreamFault {
  ignoresExpected?: boolean;
}

/** The servers. */
export interface JetStream {
  readonly process: Process;
  readonly version: string;
  readonly streams: Map<string, ModelStream>;
  readonly consumers: StreamConsumers;
  /** How long a message waits until it is stored. */
  storeMs: readonly [number, number];
  /** Whether acknowledgements are lost now. */
  losesAcks: boolean;
  /** Whether the servers answer at all. */
  isAway: boolean;
  /** Receives a message; calls `answer` once it is stored or rejected. Returns false where no stream has its subject. */
  receive(message: Published, answer: (answer: PublishAnswer) => void): boolean;
  /** Answers a request of the API. Undefined for what the model does not know. */
  request(subject: string, body: Record<string, unknown>): object | undefined;
  /** Calls `onLost` when the connection is lost. */
  connect(onLost: () => void): () => void;
  loseLeader(): void;
  /** How often a stream went back. */
  restores(): number;
  /** What the stream of envelopes had when it went back, each time. */
  readonly discarded: readonly StreamMessageStored[];
  /**
   * Keeps what streams have now, all unless some are named. Returns what goes back to it: as servers do that lost their disks and were restored
   * from a snapshot, or that elect a replica which lags.
   */
  backUp(names?: readonly string[]): () => void;
}

const expectedHeader = "Nats-Expected-Last-Subject-Sequence";
const stale = { code: 400, err_code: 10_071, description: "wrong last sequence" };
const newest = "2.12.1";
const checkedAtReceipt = "2.9.20";

/** Creates the servers of a world; `isOld` for those that compare when they receive. */
export const createJetStream = (
  world: World,
  { isOld, fault = {} }: { isOld: boolean; fault?: StreamFault | undefined },
): JetStream => {
  const process = world.process("nats");
  const streams = new Map<string, ModelStream>();
  const consumers = createStreamConsumers(world, { process, streams });
  const connections = new Set<() => void>();
  let waiting: { stream: ModelStream; message: Published; answer(answer: PublishAnswer): void }[] =
    [];
  let storedAt = 0;
  let restores = 0;
  const discarded: StreamMessageStored[] = [];

  const lastOf = ({ messages }: ModelStream, subject: string): number =>
    messages.findLast((message) => message.subject === subject)?.seq ?? 0;
  const isExpected = (stream: ModelStream, { subject, headers }: Published): boolean => {
    const expected = MsgHdrsImpl.decode(headers).get(expectedHeader);
    return fault.ignoresExpected || expected === "" || Number(expected) === lastOf(stream, subject);
  };
  const store = (stream: ModelStream, message: Published): PublishAnswer => {
    if (!isOld && !isExpected(stream, message)) return { error: stale };
    const seq = ++stream.lastSeq;
    const time = new Date(world.clockOf(process).now()).toISOString();
    if (stream.config.max_msgs_per_subject === 1)
      stream.messages = stream.messages.filter(({ subject }) => subject !== message.subject);
    stream.messages.push({ ...message, seq, time });
    return { seq };
  };
  const storeNext = (): void => {
    const [next] = waiting.splice(0, 1);
    if (next === undefined) return;
    next.answer(store(next.stream, next.message));
    consumers.serve(String(next.stream.config.name));
  };

  const infoOf = (stream: ModelStream, filter: string | undefined) => {
    const { messages, lastSeq, config, created } = stream;
    const first = messages[0];
    const last = messages.at(-1);
    const zero = "0001-01-01T00:00:00Z";
    const matches =
      filter === undefined ? [] : messages.filter(({ subject }) => isMatch(filter, subject));
    const subjects = Object.fromEntries(
      [...Map.groupBy(matches, ({ subject }) => subject)].map(([subject, all]) => [
        subject,
        all.length,
      ]),
    );
    const state = {
      messages: messages.length,
      bytes: messages.reduce((sum, { data }) => sum + data.length, 0),
      first_seq: first?.seq ?? (lastSeq === 0 ? 0 : lastSeq + 1),
      first_ts: first?.time ?? zero,
      last_seq: lastSeq,
      last_ts: last?.time ?? zero,
      consumer_count: 0,
      ...(filter !== undefined && { subjects }),
    };
    return { config, created, state };
  };
  const find = (
    stream: ModelStream,
    query: Record<string, unknown>,
  ): StreamMessageStored | undefined => {
    const { messages } = stream;
    const {
      seq = 0,
      last_by_subj,
      next_by_subj,
    } = query as Record<string, string> & { seq?: number };
    if (last_by_subj !== undefined)
      return messages.findLast(({ subject }) => subject === last_by_subj);
    if (next_by_subj === undefined) return messages.find((message) => message.seq === seq);
    return messages.find((message) => message.seq >= seq && message.subject === next_by_subj);
  };

  const request: JetStream["request"] = (subject, body) => {
    if (subject === "$JS.API.INFO") return { streams: streams.size };
    const [, act, of = "", consumer = ""] =
      /^\$JS\.API\.CONSUMER\.(CREATE|DELETE|INFO)\.(\w+)\.([\w-]+)$/.exec(subject) ?? [];
    if (act && streams.has(of))
      return consumers.request(act as ConsumerCall, { stream: of, name: consumer }, body);
    const [, call = "", name = ""] =
      /^\$JS\.API\.STREAM\.(INFO|CREATE|DELETE|MSG\.GET|PURGE)\.(\w+)$/.exec(subject) ?? [];
    if (call === "CREATE") {
      // The fields that a server sets by itself, as far as they are read.
      const config = { max_bytes: -1, max_msgs: -1, ...body };
      const created = new Date(world.clockOf(process).now()).toISOString();
      if (!streams.has(name)) streams.set(name, { config, created, lastSeq: 0, messages: [] });
    }
    const stream = streams.get(name);
    if (stream === undefined)
      return { error: { code: 404, err_code: 10_059, description: "stream not found" } };
    switch (call) {
      case "CREATE":
      case "INFO":
        return infoOf(stream, body.subjects_filter as string | undefined);
      case "MSG.GET": {
        const found = find(stream, body);
        if (found === undefined)
          return { error: { code: 404, err_code: 10_037, description: "no message found" } };
        const { seq, time, headers, data } = found;
        return {
          message: {
            subject: found.subject,
            seq,
            time,
            hdrs: headers.toBase64(),
            data: data.toBase64(),
          },
        };
      }
      case "PURGE": {
        const before = stream.messages.length;
        stream.messages = stream.messages.filter(
          (message) => !isMatch(String(body.filter), message.subject),
        );
        return { success: true, purged: before - stream.messages.length };
      }
      case "DELETE":
        return { success: streams.delete(name) };
      default:
        return undefined;
    }
  };

  const jetstream: JetStream = {
    process,
    version: isOld ? checkedAtReceipt : newest,
    streams,
    consumers,
    discarded,
    restores: () => restores,
    storeMs: [0, 5],
    losesAcks: false,
    isAway: false,
    receive(message, answer) {
      const stream = streams
        .values()
        .find(({ config }) =>
          (config.subjects as string[]).some((filter) => isMatch(filter, message.subject)),
        );
      if (stream === undefined) return false;
      if (isOld && !isExpected(stream, message)) {
        answer({ error: stale });
        return true;
      }
      waiting.push({ stream, message, answer });
      storedAt = Math.max(storedAt, world.now() + world.chance.integer(...jetstream.storeMs));
      world.as(process, () => world.after(storedAt - world.now(), storeNext));
      return true;
    },
    request,
    connect: (onLost) => {
      connections.add(onLost);
      return () => void connections.delete(onLost);
    },
    loseLeader: () => {
      const kept = waiting.slice(0, world.chance.integer(0, waiting.length));
      waiting = kept.map((entry) => ({ ...entry, answer: () => undefined }));
      consumers.disconnect();
      for (const lose of [...connections]) lose();
    },
    backUp: (names = [...streams.keys()]) => {
      const restoreConsumers = consumers.backUp();
      const some = [...streams].filter(([name]) => names.includes(name));
      const kept = some.map(
        ([name, stream]) => [name, { ...stream, messages: [...stream.messages] }] as const,
      );
      const since = restores;
      return () => {
        // Another backup was restored since: from one of before, what is reported as lost would be there again.
        if (restores !== since) return;
        restores += 1;
        if (names.includes("SVC_INGEST"))
          discarded.push(...(streams.get("SVC_INGEST")?.messages ?? []));
        for (const [name, stream] of kept)
          streams.set(name, { ...stream, messages: [...stream.messages] });
        waiting = [];
        if (names.includes("SVC_INGEST")) restoreConsumers();
        jetstream.loseLeader();
      };
    },
  };
  return jetstream;
};

/** Reports whether a subject matches a filter with `*` for one token and `>` for the rest. */
const isMatch = (filter: string, subject: string): boolean => {
  const wanted = filter.split(".");
  const found = subject.split(".");
  const rest = wanted.indexOf(">");
  const isSame = (token: string, at: number) => token === "*" || token === found[at];
  return rest >= 0
    ? found.length > rest && wanted.slice(0, rest).every(isSame)
    : wanted.length === found.length && wanted.every(isSame);
};
