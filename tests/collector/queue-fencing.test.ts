import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { it } from "vitest";
import type { Queue } from "../../collector/queue/queue.ts";
import { decideOpen } from "../../functions/ingest/open-queue.ts";
import { decodeRecords, openTestQueue, testRecord } from "../support/queue.ts";

/*
 * A model of core and its senders, with the collector's real queue on disk and core's real decision. Machines may be killed, restored
 * to a snapshot and cloned; core's database may be restored; requests and answers may be lost, and frames arrive after their stream. A
 * machine that is cloned with its memory differs from one that starts on a copy of the disk in two ways only: it knows more exactly
 * what was sent, and it draws from the same random numbers (queue-sessions.test.ts).
 */

interface CoreQueue {
  cursor: bigint;
  sessionId: Uint8Array | null;
  texts: Map<number, string>;
}

type CoreState = Map<string, CoreQueue>;

interface SentFrame {
  queueId: string;
  sessionId: Uint8Array;
  previous: number;
  records: { sequence: number; text: string }[];
}

const createCore = () => {
  let queues: CoreState = new Map();
  const gaps: { queueId: string; from: bigint; through: bigint }[] = [];
  const forked = new Set<string>();
  const copyOf = (state: CoreState): CoreState =>
    new Map(Array.from(state, ([id, queue]) => [id, { ...queue, texts: new Map(queue.texts) }]));
  return {
    gaps,
    forked,
    snapshot: () => copyOf(queues),
    restore: (state: CoreState) => {
      queues = copyOf(state);
    },
    stored: () => new Set([...queues.values()].flatMap(({ texts }) => [...texts.values()])),
    open: (session: ReturnType<Queue["beginSession"]>): bigint | "queue_forked" => {
      const queueId = session.queueId.toHex();
      const queue = queues.get(queueId) ?? { cursor: 0n, sessionId: null, texts: new Map() };
      queues.set(queueId, queue);
      const { isForked, cursor, lost } = decideOpen(queue, {
        sessionId: session.sessionId,
        previousSessionIds: [...session.previousSessionIds],
        ackedThrough: BigInt(session.ackedThrough),
        sentThrough: BigInt(session.sentThrough),
      });
      if (lost) gaps.push({ queueId, ...lost });
      if (isForked) forked.add(queueId);
      else Object.assign(queue, { cursor, sessionId: session.sessionId });
      return isForked ? "queue_forked" : cursor;
    },
    commit: ({
      queueId,
      sessionId,
      previous,
      records,
    }: SentFrame): number | "session_superseded" | "sequence_gap" => {
      const queue = queues.get(queueId);
      if (queue === undefined || queue.sessionId === null || BigInt(previous) > queue.cursor)
        return "sequence_gap";
      if (Buffer.compare(queue.sessionId, sessionId) !== 0) return "session_superseded";
      for (const { sequence, text } of records) {
        if (BigInt(sequence) <= queue.cursor) continue;
        queue.texts.set(sequence, text);
        queue.cursor = BigInt(sequence);
      }
      return Number(queue.cursor);
    },
  };
};

type Core = ReturnType<typeof createCore>;

/** The fate of a message: it arrives and is answered, its answer is lost, it arrives later, or never. */
type Fate = "answered" | "answer lost" | "late" | "lost";

const host = "spiffe://fleet.test/host-1";

interface Scenario {
  core: Core;
  root: string;
  late: SentFrame[];
  /** The acknowledged and deleted texts, each with its queue ids and sequences. */
  acknowledged: Map<string, { queueId: string; sequence: number }[]>;
  texts: number;
  directories: number;
}

/** A machine with a collector, which forwards as collector/forward/ does. */
const createMachine = (scenario: Scenario, from?: string) => {
  const { core } = scenario;
  let dir = "";
  let queue: Queue;
  let stream: { queueId: string; sessionId: Uint8Array; cursor: number; sent: number } | undefined;
  const start = (source?: string) => {
    dir = join(scenario.root, `${scenario.directories++}`);
    if (source !== undefined) cpSync(source, dir, { recursive: true });
    queue = openTestQueue(dir);
    stream = undefined;
  };
  start(from);
  const read = (beyond: number, maxRecords: number) =>
    queue
      .read(beyond, { maxRecords, maxBytes: 1e9 })
      .flatMap(({ envelopes }) => decodeRecords(envelopes))
      .map(({ sequence, payload }) => ({ sequence, text: new TextDecoder().decode(payload) }));
  const fork = () => {
    core.forked.add(queue.queueId.toHex());
    queue.fork();
    stream = undefined;
  };
  const machine = {
    queue: () => queue,
    append: (count: number) =>
      queue.append(Array.from({ length: count }, () => testRecord(`record ${scenario.texts++}`))),
    open: (fate: Fate) => {
      stream = undefined;
      const session = queue.beginSession(host);
      if (fate === "lost" || fate === "late") return;
      const answer = core.open(session);
      if (fate !== "answered") return;
      if (answer === "queue_forked" || Number(answer) > queue.sentThrough()) return fork();
      queue.sessionAnswered();
      const cursor = Number(answer);
      const sent = Math.min(cursor, (read(0, 1)[0]?.sequence ?? Number.POSITIVE_INFINITY) - 1);
      stream = { queueId: session.queueId.toHex(), sessionId: session.sessionId, cursor, sent };
    },
    send: async (count: number, fate: Fate) => {
      if (stream === undefined) return;
      const records = read(stream.sent, count);
      const last = records.at(-1)?.sequence;
      if (last === undefined) return;
      const frame = {
        queueId: stream.queueId,
        sessionId: stream.sessionId,
        previous: stream.sent,
        records,
      };
      queue.markSent(last);
      stream.sent = last;
      if (fate === "late") scenario.late.push(frame);
      const outcome = fate === "lost" || fate === "late" ? "no answer" : core.commit(frame);
      if (fate !== "answered" || typeof outcome === "string") {
        stream = undefined;
        return;
      }
      if (outcome > Math.max(stream.cursor, stream.sent)) return fork();
      const through = Math.min(outcome, stream.sent);
      for (const { sequence, text } of read(0, 1e6)) {
        if (sequence > through) break;
        const at = scenario.acknowledged.get(text) ?? [];
        scenario.acknowledged.set(text, [...at, { queueId: stream.queueId, sequence }]);
      }
      await queue.ack(through);
    },
    /** Starts again on the same disk, or on a snapshot: what is on the disk now is then gone. */
    restart: async (snapshot?: string) => {
      await queue.close();
      start(snapshot ?? dir);
    },
    snapshot: (): string => {
      const copy = join(scenario.root, `${scenario.directories++}`);
      cpSync(dir, copy, { recursive: true });
      return copy;
    },
    close: () => queue.close(),
  };
  return machine;
};

const fate = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Fate>("answered") },
  fc.constantFrom<Fate>("answer lost", "late", "lost"),
);
const which = fc.nat(3);
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("append" as const),
      which,
      count: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("open" as const), which, fate }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("send" as const),
      which,
      count: fc.integer({ min: 1, max: 4 }),
      fate,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "restart" as const,
        "snapshot" as const,
        "restore" as const,
        "clone" as const,
      ),
      which,
    }),
  },
  fc.record({
    do: fc.constantFrom("snapshot core" as const, "restore core" as const, "deliver late" as const),
    which,
  }),
);
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

const machinesMax = 3;

/** A disk in memory, if there is one: no power is cut here, and each step syncs. */
const memory = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

const play = async (steps: readonly Step[], isDatabaseRestored: boolean): Promise<void> => {
  const root = mkdtempSync(join(memory, "queue-fencing-"));
  const core = createCore();
  const scenario: Scenario = {
    core,
    root,
    late: [],
    acknowledged: new Map(),
    texts: 0,
    directories: 0,
  };
  const machines = [createMachine(scenario)];
  const snapshots: string[] = [];
  const backups = [core.snapshot()];
  try {
    for (const { which, ...step } of steps) {
      const machine = machines[which % machines.length];
      const snapshot = snapshots[which % Math.max(1, snapshots.length)];
      if (machine === undefined) continue;
      if (step.do === "append") await machine.append(step.count);
      else if (step.do === "open") machine.open(step.fate);
      else if (step.do === "send") await machine.send(step.count, step.fate);
      else if (step.do === "restart") await machine.restart();
      else if (step.do === "snapshot") snapshots.push(machine.snapshot());
      else if (step.do === "restore" && snapshot !== undefined) await machine.restart(snapshot);
      else if (step.do === "clone" && machines.length < machinesMax)
        machines.push(
          createMachine(scenario, (which % 2 === 0 ? snapshot : undefined) ?? machine.snapshot()),
        );
      else if (step.do === "snapshot core") backups.push(core.snapshot());
      else if (step.do === "restore core")
        core.restore(backups[which % backups.length] ?? new Map());
      else if (step.do === "deliver late") {
        const [frame] = scenario.late.splice(which % Math.max(1, scenario.late.length), 1);
        if (frame) core.commit(frame);
      }
    }
    for (const machine of machines) await drain(machine);
    check(scenario, isDatabaseRestored);
  } finally {
    for (const machine of machines) await machine.close();
    rmSync(root, { recursive: true });
  }
};

/** Forwards until the queue is empty: no copy may stop another for good. */
const drain = async (machine: ReturnType<typeof createMachine>): Promise<void> => {
  machine.open("answered");
  for (let round = 1; machine.queue().stats().records > 0; round++) {
    if (round > 100) throw new Error("a queue does not empty");
    if (round % 10 === 0) machine.open("answered");
    await machine.send(10, "answered");
  }
};

/**
 * Everything acknowledged is stored; if the database was restored, it may be in a range that core reported instead. Of a queue that was
 * forked besides, the fork is what was reported: a machine that continues under another queue id cannot name the range.
 */
const check = ({ core, acknowledged }: Scenario, isDatabaseRestored: boolean): void => {
  const stored = core.stored();
  for (const [text, places] of acknowledged) {
    if (stored.has(text)) continue;
    const isReported =
      isDatabaseRestored &&
      places.some(
        ({ queueId, sequence }) =>
          core.forked.has(queueId) ||
          core.gaps.some(
            (gap) => gap.queueId === queueId && gap.from <= sequence && sequence <= gap.through,
          ),
      );
    if (!isReported)
      throw new Error(`${text} was acknowledged, is not stored, and nothing reports it`);
  }
};

const plays = (isIncluded: (step: Step) => boolean, isDatabaseRestored: boolean) =>
  fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 50, size: "max" }), (steps) =>
      play(steps.filter(isIncluded), isDatabaseRestored),
    ),
    { numRuns: 200 },
  );

it(
  "Q11: loses nothing that was accepted, whatever copies of a queue there are",
  () => plays((step) => step.do !== "restore core", false),
  120_000,
);

it("Q11: ends the stream of a machine whose clone has sent, before it takes the clone's acks for its own", () =>
  play(
    [
      { do: "open", which: 0, fate: "answered" },
      { do: "clone", which: 0 },
      { do: "append", which: 0, count: 4 },
      { do: "append", which: 1, count: 2 },
      { do: "open", which: 1, fate: "answered" },
      { do: "send", which: 1, count: 2, fate: "answered" },
      { do: "send", which: 0, count: 4, fate: "answered" },
    ],
    false,
  ));

// With the disk restored too, nobody is left who knows what was acknowledged.
it(
  "Q12: reports every acknowledged record that a restored database lost",
  () => plays((step) => step.do !== "restore", true),
  120_000,
);
