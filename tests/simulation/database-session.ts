/**
 * Calls of a process to the model of the server, as those of a pool of connections: each step of a transaction is a round trip. The server
 * finishes a step whose client has gone, a commit too, and rolls back what follows; the client learns of a lost connection after a while,
 * and gives up at its deadline.
 */
import type { DatabaseDelays } from "./commit-client.ts";
import { type DatabaseServer, serverError, type Transaction } from "./database.ts";
import type { Process, World } from "./world.ts";

/** Runs a step of a transaction at the server. */
export type Step = <Result>(
  act: (transaction: Transaction) => Result | Promise<Result>,
) => Promise<Result>;

/** Runs transactions. */
export interface DatabaseSession {
  /** Commits what the steps of `work` did; rolls back when it rejects, or the connection is lost. */
  transact<Result>(work: (step: Step) => Promise<Result>): Promise<Result>;
  /** Runs a step in a transaction of its own, in one round trip. */
  once<Result>(act: (transaction: Transaction) => Result | Promise<Result>): Promise<Result>;
}

/** The dependencies of a session. */
export interface SessionNeeds {
  server: DatabaseServer;
  /** The process that calls. */
  client: Process;
  delays: DatabaseDelays;
}

/** A process gives a call to the database up after so long (functions/store/database/call-limits.ts). */
const deadlineMs = 5_000;

/** Makes the calls of a process. */
export const createDatabaseSession = (
  world: World,
  { server, client, delays }: SessionNeeds,
): DatabaseSession => {
  const travel = () => world.chance.integer(...delays.travelMs);
  const lost = () =>
    Object.assign(new Error("write CONNECTION_CLOSED"), { code: "CONNECTION_CLOSED" });

  const connect = () => {
    const transaction = server.begin();
    const ended = Promise.withResolvers<never>();
    ended.promise.catch(() => undefined);
    let isServed = true;
    let isBusy = false;
    let hasLeft = false;
    let isOver = false;
    const endAtServer = (): void => {
      isServed = false;
      server.rollback(transaction);
    };
    const onLost = (): void => {
      endAtServer();
      world.as(client, () => world.after(travel(), () => end(lost())));
    };
    const disconnect = server.connect(onLost);
    /** The server notices between two steps that its client has gone. */
    const leave = (): void =>
      void world.as(server.process, () =>
        world.after(travel(), () => {
          hasLeft = true;
          if (!isBusy) endAtServer();
        }),
      );
    const cancel = world.after(deadlineMs, () => {
      leave();
      end(
        Object.assign(new Error("the database did not answer in time"), {
          code: "DEADLINE_EXCEEDED",
        }),
      );
    });
    client.onEnd.add(leave);
    const end = (cause?: Error): void => {
      if (isOver) return;
      isOver = true;
      cancel();
      disconnect();
      client.onEnd.delete(leave);
      if (cause) ended.reject(cause);
    };

    const trip = <Result>(act: () => Result | Promise<Result>): Promise<Result> => {
      if (isOver) return Promise.reject(lost());
      const answered = Promise.withResolvers<Result>();
      const settle = (how: () => void) =>
        world.as(client, () => world.after(travel(), () => isOver || how()));
      const serve = async (): Promise<void> => {
        if (!isServed) return;
        isBusy = true;
        try {
          const result = await act();
          if (isServed) settle(() => answered.resolve(result));
        } catch (cause) {
          if (isServed) settle(() => answered.reject(cause));
          server.rollback(transaction);
        }
        isBusy = false;
        if (hasLeft) endAtServer();
      };
      world.as(server.process, () => world.after(travel(), () => void serve()));
      return Promise.race([answered.promise, ended.promise]);
    };
    const step: Step = (act) => trip(() => act(transaction));
    const commitNow = async (): Promise<void> => {
      if (transaction.writes.length > 0)
        await world.pause(world.chance.integer(...delays.commitMs));
      if (!isServed)
        throw serverError("57P01", "terminating connection due to administrator command");
      const hasWritten = transaction.xid !== undefined;
      server.commit(transaction);
      if (hasWritten && server.losesAnswer()) onLost();
    };
    return { step, trip, transaction, commitNow, end, leave };
  };

  const using = async <Result>(
    run: (connection: ReturnType<typeof connect>) => Promise<Result>,
  ): Promise<Result> => {
    await world.pause(travel());
    const connection = connect();
    try {
      return await run(connection);
    } catch (cause) {
      connection.leave();
      throw cause;
    } finally {
      connection.end();
    }
  };
  return {
    transact: (work) =>
      using(async ({ step, trip, commitNow }) => {
        const result = await work(step);
        await trip(commitNow);
        return result;
      }),
    once: (act) =>
      using(({ trip, transaction, commitNow }) =>
        trip(async () => {
          const result = await act(transaction);
          await commitNow();
          return result;
        }),
      ),
  };
};
