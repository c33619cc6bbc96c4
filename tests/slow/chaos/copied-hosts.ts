import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Queue } from "#collector/queue/queue.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createForwarderTo } from "#tests/collector/support/forwarder-to.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { openTestQueue, readAll, textsOf } from "#tests/support/queue.ts";

const appendMs = 50;
const recordsPerAppend = 5;
/** So that a recovery is core's, not the forwarder's backoff. */
const retryMs = 50;
const drainTimeoutMs = 60_000;

/** A host with the collector's queue and forwarder, on a directory that is restored and copied. */
export type CopiedHost = ReturnType<typeof startCopiedHost>;

/** A disk that an image replaced: what only it knew. Times are in ms of `performance.now()`. */
export interface LostDisk {
  /** What the host accepted on it after the image was taken, and what was not in its queue at the end. */
  readonly texts: ReadonlySet<string>;
  /** When core last opened its queue: from then on the database knew what the disk did. */
  readonly openedAt: number;
  /** When core first opened the queue of the image: from then on that disk knows what the database did. */
  readonly imageOpenedAt: number;
}

interface Connection {
  hostId: string;
  tls: { cert: string; key: string; ca: string };
  ingestPort: number;
}

/** Starts a host that accepts and forwards numbered records at a steady rate. */
export const startCopiedHost = (root: string, connection: Connection) => {
  const { hostId } = connection;
  const name = new URL(hostId).pathname.replaceAll("/", "-");
  const dir = join(root, `queue${name}`);
  const owed = new Set<string>();
  const forked = new Set<string>();
  const ackTimes: number[] = [];
  const backups: { at: string; texts: ReadonlySet<string>; accepted: ReadonlySet<string> }[] = [];
  const accepted = new Set<string>();
  const lostDisks: (LostDisk & { imageOpenedAt: number })[] = [];
  let openedAt = Number.NEGATIVE_INFINITY;
  let copies = 0;
  const start = (at = dir, word = "original"): Run =>
    run(at, connection, {
      word: `${hostId} ${word}`,
      onAccepted: (texts) => {
        for (const text of texts) owed.add(text);
        if (at === dir) for (const text of texts) accepted.add(text);
      },
      onOpened: () => {
        if (at !== dir) return;
        openedAt = performance.now();
        for (const disk of lostDisks) disk.imageOpenedAt = Math.min(disk.imageOpenedAt, openedAt);
      },
      onAck: () => void (at === dir && ackTimes.push(performance.now())),
      onForked: (queueId) => void forked.add(queueId),
    });
  let original = start();
  let finishing: Promise<void> | undefined;
  const finish = async () => {
    await original.drain();
    await original.stop();
  };
  return {
    hostId,
    /** The times of its acknowledgements, in ms of `performance.now()`. */
    ackTimes,
    /** What it accepted and what did not vanish with a disk: the texts that must be stored. */
    owed,
    /** The queue ids that it left, as core knew a copy of them. */
    forked,
    lostDisks,
    /** Copies the directory, runs for `ms`, and continues on this or an earlier copy: `draw` in [0, 1) chooses one. */
    async restore(ms: number, draw: number) {
      const texts = new Set(await original.stop());
      const newest = { at: `${dir}-backup-${++copies}`, texts, accepted: new Set(accepted) };
      await cp(dir, newest.at, { recursive: true });
      backups.push(newest);
      const backup = backups[Math.floor(draw * backups.length)] ?? newest;
      original = start();
      await systemClock.sleep(ms);
      for (const text of await original.stop()) if (!backup.texts.has(text)) owed.delete(text);
      const unknown = accepted.difference(backup.accepted).intersection(owed);
      lostDisks.push({ texts: unknown, openedAt, imageOpenedAt: Number.POSITIVE_INFINITY });
      await rm(dir, { recursive: true });
      await cp(backup.at, dir, { recursive: true });
      original = start();
    },
    /** Runs a second host on a copy of the directory for `ms`, and until core has acknowledged all of it. */
    async runCopy(ms: number) {
      const at = `${dir}-copy-${++copies}`;
      await original.stop();
      await cp(dir, at, { recursive: true });
      original = start();
      const copy = start(at, `copy ${copies}`);
      await systemClock.sleep(ms);
      const isEmpty = await copy.drain();
      await copy.stop();
      if (!isEmpty) throw new Error("a copy's queue is not acknowledged within 60 s");
    },
    /** Accepts nothing more; resolves when everything is acknowledged, or after 60 s. Idempotent. */
    finish: () => (finishing ??= finish()),
  };
};

type Run = ReturnType<typeof run>;

let numbered = 0;

/** Runs queue and forwarder on a directory, as a collector does between two starts. */
const run = (
  dir: string,
  { hostId, tls, ingestPort }: Connection,
  to: {
    word: string;
    onAccepted(texts: readonly string[]): void;
    /** Core has opened the queue. */
    onOpened(): void;
    onAck(): void;
    onForked(queueId: string): void;
  },
) => {
  const queue: Queue = openTestQueue(dir, { entropy: systemEntropy });
  const { sessionAnswered } = queue;
  queue.sessionAnswered = () => {
    sessionAnswered();
    to.onOpened();
  };
  const end = new AbortController();
  let isDraining = false;
  let queueId = queue.queueId.toHex();
  const noteFork = () => {
    const now = queue.queueId.toHex();
    if (now !== queueId) to.onForked(queueId);
    queueId = now;
  };
  const accept = async () => {
    while (!isDraining) {
      const texts = Array.from({ length: recordsPerAppend }, () => `${to.word} ${++numbered}`);
      await queue.append(
        texts.map((text) => ({
          kind: "copied",
          observedAtMs: systemClock.now(),
          source: "chaos",
          attributes: {},
          payload: new TextEncoder().encode(text),
        })),
      );
      to.onAccepted(texts);
      await systemClock.sleep(appendMs);
    }
  };
  const accepting = accept();
  const forwarding = createForwarderTo(
    { port: ingestPort, caPem: tls.ca },
    tls,
    {
      hostId,
      queue,
      batch: { maxEnvelopes: 50, maxBytes: 1_048_576, lingerMs: 10 },
      log: { ...createTestLog(), warn: noteFork },
      onAck: to.onAck,
    },
    retryMs,
  ).run(end.signal);
  const endAccepting = async () => {
    isDraining = true;
    await accepting;
  };
  return {
    /** Accepts nothing more; resolves with true once the queue is empty, or with false after 60 s. */
    async drain() {
      await endAccepting();
      const deadline = performance.now() + drainTimeoutMs;
      while (queue.stats().records > 0 && performance.now() < deadline) await systemClock.sleep(20);
      return queue.stats().records === 0;
    },
    /** Ends it; resolves with the texts that are still in its queue. */
    async stop() {
      await endAccepting();
      end.abort(new Error("stop"));
      await forwarding;
      noteFork();
      const left = textsOf(readAll(queue));
      await queue.close();
      return left;
    },
  };
};
