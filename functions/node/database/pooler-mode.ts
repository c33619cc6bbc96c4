import type { Client } from "pg";
import { destroyClient, openCopyClient } from "../../store/ingest/copy-transaction.ts";

/** How long a connection keeps the server process that serves it: until it closes, or for a transaction or a statement. */
export type PoolerMode = "session" | "transaction" | "statement";

/** Statements of each connection behind a pooler. One that keeps no session gives one of them another process, if only by chance. */
const roundsOfPooler = 24;
/** Then a pooler without a free connection has not answered: the connections are closed, and the call rejects. */
const timeoutMs = 20_000;

/**
 * Returns what a connection to `url` keeps. "transaction" and "statement" are proven: one connection was served by two processes, or two
 * connections by one. "session" is certain without a pooler, whose connections know the process that serves them; with one it means that
 * two connections, idle and in transactions by turns, kept their processes throughout. Rejects within 20 s without an answer.
 */
export const findPoolerMode = async (url: string): Promise<PoolerMode> => {
  const clients: Client[] = [];
  const timer = setTimeout(() => clients.forEach(destroyClient), timeoutMs);
  try {
    for (let count = 0; count < 2; count++) clients.push(await openCopyClient(url));
    const [first, second] = clients as [Client, Client];
    const process = await backendOf(first);
    if (process === announced(first) && (await backendOf(second)) === announced(second))
      return "session";
    if (!(await allowsTransactions(url))) return "statement";
    return (await keepProcesses(first, second)) ? "session" : "transaction";
  } finally {
    clearTimeout(timer);
    for (const client of clients) destroyClient(client);
  }
};

/** A pooler that hands out processes by turns, or the last one first, would keep them under one regular pattern of use. */
const keepProcesses = async (first: Client, second: Client): Promise<boolean> => {
  const seen = [new Set<number>(), new Set<number>()] as const;
  /** Returns whether both still have their processes. */
  const look = async (at: 0 | 1): Promise<boolean> => {
    seen[at].add(await backendOf(at === 0 ? first : second));
    return seen[0].size <= 1 && seen[1].size <= 1 && seen[0].isDisjointFrom(seen[1]);
  };
  for (let round = 0; round < roundsOfPooler; round++) {
    const isHeld = round % 2 === 0;
    if (!(await look(0))) return false;
    if (isHeld) await second.query("begin");
    // Before the first looks again: in a pool of one connection it would wait for the second's transaction.
    if (!(await look(1)) || !(await look(0))) return false;
    if (isHeld) await second.query("commit");
    for (let more = round % 3; more > 0; more--) if (!(await look(1))) return false;
  }
  return true;
};

/** A pooler in statement mode closes a connection that begins a transaction. */
const allowsTransactions = async (url: string): Promise<boolean> => {
  const client = await openCopyClient(url);
  try {
    await client.query("begin; commit");
    await client.query("begin");
    await client.query("commit");
    return true;
  } catch (cause) {
    if (/statement pool/i.test((cause as Error).message)) return false;
    throw cause;
  } finally {
    destroyClient(client);
  }
};

/** The process that the server named when the connection was opened, for cancelling; a pooler names one of its own. */
const announced = (client: Client): number | null =>
  (client as Client & { processID: number | null }).processID;

const backendOf = async (client: Client): Promise<number> =>
  (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows[0]?.pid ?? 0;
