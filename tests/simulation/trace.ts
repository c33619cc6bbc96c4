/** Notes what the parts of a lab do, at the interfaces between them. */
import type { Queue } from "#collector/queue/queue.ts";
import { readAccount } from "#functions/domain/telemetry/read-account.ts";
import type { AccountRegister } from "#functions/ingest/accounts.ts";
import type { QueueRegister } from "#functions/ingest/open-queue.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import type { Heard } from "./queue-past.ts";
import type { Tables } from "./tables.ts";
import { withMembers } from "./with-members.ts";
import type { World } from "./world.ts";

const routine = { isRoutine: true };
/** The sink of a stream notes queues each second: a core that is killed loses those of the last one. */
const notedMs = 1_500;
const shortId = (id: Uint8Array): string => id.toHex().slice(0, 6);
/** When hosts began sessions, by their ids: an image of a disk from before knows nothing of them. */
const begunIn = new WeakMap<World, Map<string, number>>();
const begunOf = (world: World): Map<string, number> => {
  const begun = begunIn.get(world) ?? new Map<string, number>();
  begunIn.set(world, begun);
  return begun;
};
const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** Returns the queue of a machine, whose calls are noted, and in `heard` what core answers of it. */
export const tracedQueue = (world: World, machine: string, queue: Queue, heard: Heard[]): Queue => {
  let sessionAt = 0;
  const hear = (through: number | undefined, at = world.now()) =>
    heard.push({ queueHex: queue.queueId.toHex(), at, through });
  return withMembers(queue, {
    append: async (records, options) => {
      try {
        const outcome = await queue.append(records, options);
        world.note(
          `${machine} ${outcome} a source's records, through ${queue.lastSequence}`,
          routine,
        );
        return outcome;
      } catch (error) {
        world.note(`${machine} cannot store a source's records: ${reasonOf(error)}`);
        throw error;
      }
    },
    ack: (sequence, options) => {
      world.note(`${machine} deletes through ${sequence}`, routine);
      hear(sequence);
      return queue.ack(sequence, options);
    },
    sessionAnswered: (...cursors) => {
      hear(undefined, sessionAt);
      queue.sessionAnswered(...cursors);
    },
    beginSession: (hostId) => {
      const session = queue.beginSession(hostId);
      sessionAt = world.now();
      begunOf(world).set(session.sessionId.toHex(), sessionAt);
      const { ackedThrough, sentThrough } = session;
      world.note(
        `${machine} opens queue ${shortId(session.queueId)}, acknowledged through ${ackedThrough}, sent through ${sentThrough}`,
      );
      return session;
    },
    moveToDeadLetters: (sequence, code, message) => {
      world.note(`${machine} moves ${sequence} to the dead letters: ${code}`);
      return queue.moveToDeadLetters(sequence, code, message);
    },
    fork: () => {
      queue.fork();
      world.note(`${machine} continues as queue ${shortId(queue.queueId)}`);
    },
  });
};

/** Returns the sink of a core, whose calls are noted, and in `heard` what they tell core of a queue. */
export const tracedSink = (
  world: World,
  core: string,
  sink: Sink,
  heard: () => Tables["heard"],
): Sink => {
  const hear = (
    { queueId }: { queueId: Uint8Array },
    through: number | undefined,
    at = world.now(),
  ) => {
    const queueHex = queueId.toHex();
    const tables = heard();
    world.after(notedMs, () => {
      // A database that has gone back since knows nothing of it.
      if (heard() === tables)
        tables.set(queueHex, [...(tables.get(queueHex) ?? []), { queueHex, at, through }]);
    });
  };
  return {
    ...sink,
    open: async (claims, isDisconnected) => {
      const queue = `queue ${shortId(claims.queueId)} of ${claims.hostId}`;
      try {
        const opened = await sink.open(claims, isDisconnected);
        world.note(`${core} opens ${queue} at ${opened.cursor}`);
        hear(claims, undefined, begunOf(world).get(claims.sessionId.toHex()));
        return opened;
      } catch (error) {
        world.note(`${core} does not open ${queue}: ${reasonOf(error)}`);
        throw error;
      }
    },
    commit: async (frame, bytes) => {
      const range = `${frame.previousSequence + 1n}..${frame.lastSequence} of queue ${shortId(frame.queueId)}`;
      try {
        const committed = await sink.commit(frame, bytes);
        world.note(
          `${core} commits ${range}: ${committed.outcome}, ${committed.before} → ${committed.cursor}`,
          routine,
        );
        hear(frame, Number(committed.cursor));
        return committed;
      } catch (error) {
        world.note(`${core} does not commit ${range}: ${reasonOf(error)}`);
        throw error;
      }
    },
  };
};

/** Returns the register of a core, whose records are noted. */
export const tracedRegister = <Tx>(
  world: World,
  core: string,
  register: QueueRegister<Tx>,
): QueueRegister<Tx> => ({
  ...register,
  record: (tx, queue, events) => {
    for (const { action, details } of events)
      world.note(`${core} records ${action} of ${queue.hostId}: ${JSON.stringify(details)}`);
    return register.record(tx, queue, events);
  },
});

/** Returns the accounts of a core, whose decisions are noted. */
export const tracedAccounts = (
  world: World,
  core: string,
  register: AccountRegister,
): AccountRegister => ({
  accept: async (caller, account, stream) => {
    const { number, queueId, firstSequence, lastSequence } = readAccount(account.body) ?? {};
    const name = `account ${number} of queue ${shortId(queueId ?? new Uint8Array())}, ${firstSequence}..${lastSequence}`;
    try {
      const { through, refused } = await register.accept(caller, account, stream);
      world.note(
        `${core} takes ${name}: through ${through}${refused === "" ? "" : `, refused: ${refused}`}`,
      );
      return { through, refused };
    } catch (error) {
      world.note(`${core} does not take ${name}: ${reasonOf(error)}`);
      throw error;
    }
  },
});
