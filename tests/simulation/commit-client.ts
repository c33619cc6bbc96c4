/**
 * A connection of the committer (`openCommitClient`) to the model of the server: it runs the statements that
 * functions/store/ingest/commit-batch.ts prepares, and the lock of adoptions, and no others. A message's statements run one after the
 * other, also after the client has gone, until one of them waits for its data; so a commit that the client has given up may still happen.
 */
import type { Client, Connection, Submittable } from "pg";
import { type DatabaseServer, serverError, type Transaction } from "./database.ts";
import {
  argumentsOf,
  type CopiedBlock,
  messagesOf,
  readCopiedBlocks,
  splitStatements,
} from "./read-statements.ts";
import { createStatements, type Row } from "./statements.ts";
import type { StoredEnvelope } from "./tables.ts";
import type { Process, World } from "./world.ts";

/** How long a message travels, and what a commit costs, in milliseconds: at least, and at most. */
export interface DatabaseDelays {
  travelMs: readonly [number, number];
  commitMs: readonly [number, number];
}

/** The dependencies of a connection. */
export interface CommitClientNeeds {
  server: DatabaseServer;
  /** The process that connects. */
  core: Process;
  delays: DatabaseDelays;
  /** Receives what ends the connection when the process is killed. */
  onOpened(sever: () => void): void;
}

/** What arrives at the server for one message: its statements, and the data of its COPY statements. */
interface Message {
  text: string;
  copies: Uint8Array[][];
  /** How many of the copies are complete. */
  complete: number;
  wake(): void;
}

/** Returns a function that runs tasks one after the other; the first one at once. */
const createTurns = () => {
  const waiting: (() => void)[] = [];
  let isBusy = false;
  return async <Result>(task: () => Promise<Result>): Promise<Result> => {
    if (isBusy) await new Promise<void>((resolve) => waiting.push(resolve));
    isBusy = true;
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else isBusy = false;
    }
  };
};

/** Returns the socket of a connection, which calls its listener when nothing arrives for a while. */
const silenceOf = (world: World, destroy: () => void) => {
  let onSilence = (): void => undefined;
  let stop = (): void => undefined;
  const stream = {
    destroy,
    once: (_event: string, listener: () => void) => {
      onSilence = listener;
      return stream;
    },
    off: () => stream,
    setTimeout: (ms: number) => {
      stop();
      if (ms > 0) stop = world.after(ms, () => onSilence());
      return stream;
    },
  };
  return stream;
};

/** Reports whether its sender does not compress a block. */
const isSmall = (block: CopiedBlock | undefined): boolean =>
  (block?.columns.get("raw_bytes")?.readInt32BE() ?? 0) < 1_024;

/** Connects; rejects as pg does when the server refuses. */
export const connectCommitClient = async (
  world: World,
  { server, core, delays, onOpened }: CommitClientNeeds,
): Promise<Client> => {
  const travel = () => world.chance.integer(...delays.travelMs);
  let upAt = 0;
  let downAt = 0;
  /** Runs `act` at the server, behind what was sent before, whatever becomes of the client. */
  const up = (act: () => void): void => {
    upAt = Math.max(upAt, world.now() + travel());
    world.as(server.process, () => world.after(upAt - world.now(), act));
  };
  const down = (act: () => void): void => {
    downAt = Math.max(downAt, world.now() + travel());
    world.as(core, () => world.after(downAt - world.now(), act));
  };
  await world.pause(travel());
  let isGone = false;
  let transaction: Transaction | undefined;
  let active: { fail(error: Error): void } | undefined;
  const listeners: (() => void)[] = [];

  const lose = (): void => {
    if (isGone) return;
    isGone = true;
    disconnect();
    active?.fail(new Error("Connection terminated unexpectedly"));
    active = undefined;
    for (const listener of listeners) listener();
  };
  /** The server has ended the connection: what it had not committed is gone. */
  const onLost = (): void => {
    endSession();
    isServed = false;
    for (const wake of wakers) wake();
    down(lose);
  };
  const endTransaction = (): void => {
    if (transaction) server.rollback(transaction);
    transaction = undefined;
  };
  /** Has the locks that a session takes. */
  const session = server.begin();
  const endSession = (): void => {
    endTransaction();
    server.rollback(session);
  };
  let isServed = true;
  /** Whether the server runs a message, and whether it knows that the client has gone. */
  let isBusy = false;
  let hasLeft = false;
  const wakers = new Set<() => void>();
  const disconnect = server.connect(onLost);

  const execute = createStatements(world, server);

  /** Runs one statement; resolves with its rows and its command tag. */
  const step = async (
    statement: string,
    message: Message,
    copy: () => number,
  ): Promise<{ rows: Row[]; tag: string }> => {
    if (statement.startsWith("begin")) {
      transaction = server.begin();
      return { rows: [], tag: "BEGIN" };
    }
    if (statement.startsWith("set local lock_timeout") && transaction)
      transaction.lockTimeoutMs = 1_000;
    if (statement.startsWith("set ")) return { rows: [], tag: "SET" };
    if (statement === "rollback") {
      endTransaction();
      return { rows: [], tag: "ROLLBACK" };
    }
    if (statement.startsWith("select pg_try_advisory_lock(")) {
      await server.lock(session, statement);
      return { rows: [{ locked: "true" }], tag: "SELECT" };
    }
    const isAlone = transaction === undefined && statement.startsWith("execute ");
    if (isAlone) transaction = server.begin();
    const open = transaction;
    if (open === undefined) throw serverError("25P01", "there is no transaction in progress");
    if (statement === "commit") {
      await world.pause(world.chance.integer(...delays.commitMs));
      if (transaction !== open) throw new Error("Connection terminated unexpectedly");
      server.commit(open);
      transaction = undefined;
      if (server.losesAnswer()) onLost();
      return { rows: [], tag: "COMMIT" };
    }
    if (statement.startsWith("copy ")) {
      const index = copy();
      while (message.complete <= index) {
        if (hasLeft || !isServed) throw new Error("unexpected EOF on client connection");
        await new Promise<void>((resolve) => (message.wake = resolve));
      }
      const copied = readCopiedBlocks(message.copies[index] ?? [], server.bucket);
      server.write(open, ({ envelopes, blocks }, xid) => {
        for (const [at, { columns, rows }] of copied.entries()) {
          if (
            server.fault.dropsSmallBlocks &&
            isSmall(copied[at]) &&
            at > 0 &&
            !isSmall(copied[at - 1])
          )
            continue;
          blocks.push({ xid, columns, envelopes: rows.length });
          envelopes.push(...rows.map((row): StoredEnvelope => ({ ...row, xid })));
        }
      });
      return { rows: [], tag: `COPY ${copied.length}` };
    }
    const call = /^execute (\w+)\s*\((.*)\)$/s.exec(statement);
    if (call === null) throw new Error(`the model does not know the statement ${statement}`);
    const rows = await execute(open, call[1] ?? "", argumentsOf(call[2] ?? ""));
    if (isAlone && transaction === open) {
      server.commit(open);
      transaction = undefined;
    }
    return { rows, tag: "EXECUTE" };
  };

  /** Runs a message's statements at the server; `onStep` receives each result, and the error that ends them. */
  const serve = async (
    message: Message,
    onStep: (result: { rows: Row[]; tag: string }) => void,
  ): Promise<void> => {
    let copies = 0;
    for (const statement of splitStatements(message.text)) {
      if (!isServed) throw new Error("Connection terminated unexpectedly");
      try {
        onStep(await step(statement, message, () => copies++));
      } catch (error) {
        if (hasLeft) endSession();
        else endTransaction();
        throw error;
      }
    }
    if (hasLeft) endSession();
  };

  const send = (
    message: Message,
    onStep: (result: { rows: Row[]; tag: string }) => void,
  ): Promise<void> =>
    new Promise((resolve, reject) => {
      const answered = { fail: reject };
      active = answered;
      const settle = (act: () => void) =>
        down(() => {
          if (isGone || active !== answered) return;
          active = undefined;
          act();
        });
      up(() => {
        if (!isServed) return;
        isBusy = true;
        serve(message, onStep)
          .finally(() => (isBusy = false))
          .then(
            () => settle(resolve),
            (error: unknown) => settle(() => reject(error)),
          );
      });
    });

  /** As pg, sends one message at a time. */
  const inTurn = createTurns();
  const query = (asked: string | Submittable): unknown => {
    if (typeof asked === "string") return inTurn(() => sendText(asked));
    void inTurn(() => submit(asked));
    return asked;
  };
  const sendText = async (text: string): Promise<unknown> => {
    const results: { rows: Row[] }[] = [];
    if (isGone) throw new Error("Connection terminated");
    const message = { text, copies: [], complete: 0, wake: () => undefined };
    await send(message, ({ rows }) => results.push({ rows }));
    return results.length === 1 ? results[0] : results;
  };

  const submit = async (asked: Submittable): Promise<void> => {
    const handlers = asked as Submittable &
      Record<
        "handleError" | "handleReadyForQuery" | "handleCommandComplete",
        (value?: unknown) => void
      >;
    const message: Message = { text: "", copies: [[]], complete: 0, wake: () => undefined };
    const write = (bytes: Uint8Array): boolean => {
      if (isGone) return false;
      const sent = bytes.slice();
      up(() => {
        for (const part of messagesOf(sent)) {
          if (part.type === "d") message.copies[message.complete]?.push(part.body);
          else {
            message.complete += 1;
            message.copies.push([]);
          }
        }
        message.wake();
      });
      return true;
    };
    const connection = {
      query: (text: string) => {
        message.text = text;
      },
      stream: { cork: () => undefined, uncork: () => undefined, write, destroy: () => gone() },
    };
    let isEnded = false;
    const finish = (error?: unknown) => {
      if (isEnded) return;
      isEnded = true;
      if (error) handlers.handleError(error);
      else handlers.handleReadyForQuery();
    };
    if (isGone) return queueMicrotask(() => finish(new Error("Connection terminated")));
    wakers.add(() => message.wake());
    asked.submit(connection as unknown as Connection);
    await send(message, ({ tag }) => handlers.handleCommandComplete({ text: tag })).then(
      () => finish(),
      finish,
    );
  };

  const gone = (): void => {
    lose();
    // The server notices when it next waits for the client.
    up(() => {
      hasLeft = true;
      for (const wake of wakers) wake();
      if (!isBusy) endSession();
    });
  };
  const client = {
    connection: { stream: silenceOf(world, gone) },
    query,
    on: (event: string, listener: () => void) => event === "end" && listeners.push(listener),
    once: (event: string, listener: () => void) => event === "end" && listeners.push(listener),
    end: async () => {
      gone();
    },
  };
  onOpened(gone);
  // The part of pg's Client that the committer uses.
  return client as unknown as Client;
};
