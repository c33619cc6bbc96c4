/** The database of an export on the model of the server: drizzle's statements as it sends them, and the connection that reads blocks. */
import { drizzle } from "drizzle-orm/postgres-js";
import type { Client, Connection, Submittable } from "pg";
import type { Sql } from "postgres";
import type { Database } from "#functions/store/database/database.ts";
import {
  createDatabaseSession,
  type DatabaseSession,
  type SessionNeeds,
} from "./database-session.ts";
import { createExportStatements, type ExecuteStatement } from "./export-statements.ts";
import { withObjectStatements } from "./object-statements.ts";
import type { Values } from "./sql-expressions.ts";
import type { World } from "./world.ts";

/** Creates the database of a process. */
export const connectExportDatabase = (
  world: World,
  needs: SessionNeeds,
  execute: ExecuteStatement = createExportStatements(needs.server),
): Database => {
  const session = createDatabaseSession(world, needs);
  const run = noteUnknown(needs.server, withObjectStatements(needs.server, execute));
  const runnerOf = (once: DatabaseSession["once"]) => ({
    unsafe: (text: string, params: readonly unknown[] = []) =>
      statement(once, run, { text, params }),
  });
  const client = {
    ...runnerOf(session.once),
    begin: <Result>(work: (tx: object) => Promise<Result>) =>
      session.transact((step) => work(runnerOf(step))),
    options: { parsers: {}, serializers: {} },
  };
  return drizzle(client as unknown as Sql);
};

/** The server's own errors have a code; any other is of a statement that the model does not know, and core may only try again. */
const noteUnknown =
  ({ unknown }: SessionNeeds["server"], execute: ExecuteStatement): ExecuteStatement =>
  async (...statement) => {
    try {
      return await execute(...statement);
    } catch (cause) {
      if (!(cause instanceof Error && "code" in cause)) unknown.add(String(cause));
      throw cause;
    }
  };

/** A statement of postgres.js, as far as drizzle uses one. */
const statement = (
  once: DatabaseSession["once"],
  execute: ExecuteStatement,
  { text, params }: { text: string; params: readonly unknown[] },
): Promise<Values[]> & { values(): Promise<unknown[][]> } => {
  const rows = once((transaction) => execute(transaction, text, params));
  return Object.assign(rows, {
    values: () => rows.then((found) => found.map((row) => Object.values(row))),
  });
};

const copyPattern =
  /copy \(select (.+?) from ingest_block where xid >= (-?\d+) and xid < (-?\d+)\) to stdout/;
const signature = Buffer.from([
  ...Buffer.from("PGCOPY\n"),
  0xff,
  0x0d,
  0x0a,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
]);
const trailer = Buffer.from([0xff, 0xff]);

/** Opens a connection that reads blocks (`readEnvelopes`); rejects as pg does when the server refuses. */
export const connectReader = async (
  world: World,
  { server, client, delays }: SessionNeeds,
): Promise<Client> => {
  const travel = () => world.chance.integer(...delays.travelMs);
  await world.pause(travel());
  let isGone = false;
  let fail = (_cause: Error): void => undefined;
  const listeners = new Set<() => void>();
  let stopTimer = (): void => undefined;
  const destroy = (): void => {
    if (isGone) return;
    isGone = true;
    stopTimer();
    disconnect();
    // As a socket, which reports its end later.
    world.after(0, () => fail(new Error("Connection terminated unexpectedly")));
  };
  const onLost = () => world.as(client, () => world.after(travel(), destroy));
  const disconnect = server.connect(server.fault.keepsReaders ? () => undefined : onLost);
  const stream = {
    destroy,
    once: (_event: string, listener: () => void) => {
      listeners.add(listener);
      return stream;
    },
    off: (_event: string, listener: () => void) => {
      listeners.delete(listener);
      return stream;
    },
    setTimeout: (ms: number) => {
      stopTimer();
      if (ms > 0)
        stopTimer = world.after(ms, () => [...listeners].forEach((listener) => void listener()));
      return stream;
    },
  };
  /** Runs `act` at the server, and `receive` with its result here. */
  const trip = <Result>(act: () => Result, receive: (result: Result) => void): void =>
    void world.as(server.process, () =>
      world.after(travel(), () => {
        if (isGone) return;
        const result = act();
        world.as(client, () => world.after(travel(), () => isGone || receive(result)));
      }),
    );

  /** Answers `timeline` and `started` of a check of the server. */
  const check = (text: string): Promise<{ rows: Values[] }> =>
    new Promise((resolve, reject) => {
      if (!/^select .* as timeline, .* as started$/.test(text))
        throw new Error(`the model does not know ${text}`);
      fail = reject;
      const identity = () => ({
        timeline: server.identity.timeline,
        started: server.identity.startedAt,
      });
      trip(identity, (row) => resolve({ rows: [row] }));
    });

  const copy = (asked: Submittable): void => {
    const handlers = asked as Submittable &
      Record<
        "handleError" | "handleReadyForQuery" | "handleCommandComplete",
        (value?: unknown) => void
      > & {
        handleCopyData(message: { chunk: Buffer }, connection: Connection): void;
      };
    fail = (cause) => handlers.handleError(cause);
    const connection = { stream, query: (text: string) => read(text) } as unknown as Connection;
    const read = (text: string): void => {
      const [, columns = "", from, to] = copyPattern.exec(text) ?? [];
      if (from === undefined) throw new Error(`the model does not know ${text}`);
      const names = columns.split(", ");
      const visible = () =>
        server.tables.blocks
          .filter(({ xid }) => xid >= Number(from) && xid < Number(to))
          .map((block) => encodeRow(names, block.columns));
      trip(visible, (rows) => {
        for (const [index, row] of rows.entries())
          if (!isGone)
            handlers.handleCopyData(
              { chunk: index === 0 ? Buffer.concat([signature, row]) : row },
              connection,
            );
        if (isGone) return;
        handlers.handleCopyData(
          { chunk: rows.length === 0 ? Buffer.concat([signature, trailer]) : trailer },
          connection,
        );
        for (let command = 0; command < 2; command++)
          handlers.handleCommandComplete({ text: "COPY" });
        fail = () => undefined;
        handlers.handleReadyForQuery();
      });
    };
    if (isGone) queueMicrotask(() => handlers.handleError(new Error("Connection terminated")));
    else handlers.submit(connection);
  };
  const reader = {
    connection: { stream },
    query: (asked: string | Submittable) =>
      typeof asked === "string" ? check(asked) : copy(asked),
  };
  // The part of pg's Client that the source uses.
  return reader as unknown as Client;
};

/** A row of binary COPY. */
const encodeRow = (names: readonly string[], columns: ReadonlyMap<string, Buffer>): Buffer => {
  const head = Buffer.alloc(2);
  head.writeInt16BE(names.length);
  return Buffer.concat([
    head,
    ...names.flatMap((name) => {
      const value = columns.get(name);
      const length = Buffer.alloc(4);
      length.writeInt32BE(value?.length ?? -1);
      return value ? [length, value] : [length];
    }),
  ]);
};
