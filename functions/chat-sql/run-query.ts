/**
 * Runs one statement of the model. Every query has its own connection, so that no state of a session reaches another statement. It runs in a
 * read-only transaction that never commits, by the extended protocol, which rejects several statements. Received bytes are counted before they
 * are parsed, and too many end the query. To end a query, core cancels it and keeps its connection open until the server closes it: then its
 * backend has ended.
 */
import { Client, type Connection, type FieldDef, Query } from "pg";
import { errorCode } from "#kit/describe-error.ts";
import { resultBytesMax, rowsMax, type ToolResult, toolError } from "#proto/chat/session.ts";
import { setForTransaction } from "../store/database/connection-settings.ts";
import { destroyClient } from "../store/ingest/copy-transaction.ts";
import { checkPlan, planSettings } from "./check-plan.ts";

/** A statement with its parameters. */
export interface BoundStatement {
  text: string;
  values: readonly unknown[];
}

/** How long a query may run, its connection included; the server ends it a second earlier. */
interface QueryLimits {
  statementMs: number;
  connectMs: number;
}

/** The time that a query may take. */
const queryLimits: QueryLimits = { statementMs: 5_000, connectMs: 3_000 };

/** Bytes from the server after which the connection is closed: more than any result within the limits has. */
const receivedBytesMax = 2 * resultBytesMax;

/** Reports that the server rejected the password of the role, before a statement was sent. */
export class LoginRejected extends Error {
  override readonly name = "LoginRejected";
}

/** Why core ended a query. */
type Stopped = "aborted" | "timeout" | "too_large" | "enough";

/** How a query is run. */
export interface QueryOptions {
  signal: AbortSignal;
  limits?: QueryLimits;
  /** Receives a promise that resolves when the backend of an ended query has ended. */
  keepUntil?: (ended: Promise<void>) => void;
}

/**
 * Runs a statement at `url`, as the role that it names. Resolves with rows, up to the limits, or with an error. Rejects with `LoginRejected` if
 * the server rejects the password; on abort, cancels the query and rejects with the signal's reason.
 */
export const runQuery = async (
  url: string,
  statement: BoundStatement,
  { signal, limits = queryLimits, keepUntil = () => undefined }: QueryOptions,
): Promise<ToolResult> => {
  signal.throwIfAborted();
  const client = createClient(url, limits);
  let isConnected = false;
  let isLeft = false;
  const stopped = Promise.withResolvers<Stopped>();
  const abort = () => stopped.resolve("aborted");
  signal.addEventListener("abort", abort, { once: true });
  const timer = setTimeout(
    () => stopped.resolve("timeout"),
    limits.connectMs + limits.statementMs + 500,
  );
  const read: ReadRows = { fields: [], rows: [], bytes: 2, truncated: false };
  const work = async (): Promise<ToolResult> => {
    await client.connect();
    isConnected = true;
    countReceived(client, () => stopped.resolve("too_large"));
    await client.query(`begin transaction isolation level repeatable read, read only;
      ${setForTransaction}; set local statement_timeout = ${limits.statementMs}; set local search_path = chat, pg_catalog;
      ${planSettings}`);
    const { text, values } = statement;
    const plan = await client.query(`explain (verbose, format json) ${text}`, [...values]);
    const reason = checkPlan(plan.rows[0]["QUERY PLAN"]);
    if (reason !== null) return toolError("statement_refused", reason);
    await readRows(client, statement, read, () => stopped.resolve("enough"));
    await client.query("rollback");
    return rowsOf(read);
  };
  try {
    const outcome = await Promise.race([work(), stopped.promise]);
    if (typeof outcome !== "string") {
      await Promise.race([client.end(), stopped.promise]);
      return outcome;
    }
    isLeft = isConnected;
    if (isLeft) keepUntil(endBackend(url, client));
    if (outcome === "aborted") throw signal.reason;
    if (outcome === "timeout") return timedOut(limits);
    if (read.rows.length > 0) return rowsOf({ ...read, truncated: true });
    return toolError("result_too_large", `a row is larger than ${resultBytesMax} bytes`);
  } catch (cause) {
    if (signal.aborted && cause === signal.reason) throw cause;
    if (!isConnected && errorCode(cause) === invalidPassword)
      throw new LoginRejected("the password of the role is not accepted", { cause });
    return errorOf(cause, limits);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
    if (!isLeft) destroyClient(client);
  }
};

const createClient = (url: string, { connectMs }: QueryLimits): Client => {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: connectMs,
    application_name: "svc-server chat",
    // The connection also ends if the server disappears silently.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  });
  client.on("error", () => undefined);
  return client;
};

const invalidPassword = "28P01";

interface ReadRows {
  fields: readonly FieldDef[];
  rows: unknown[][];
  /** Size of the rows as JSON. */
  bytes: number;
  truncated: boolean;
}

/** The types of results by their OID in PostgreSQL's catalog. */
const typeNames: Readonly<Record<number, string>> = {
  16: "boolean",
  17: "bytea",
  20: "bigint",
  21: "smallint",
  23: "integer",
  25: "text",
  114: "json",
  650: "cidr",
  700: "real",
  701: "double precision",
  869: "inet",
  1042: "character",
  1043: "text",
  1082: "date",
  1083: "time",
  1114: "timestamp",
  1184: "timestamptz",
  1186: "interval",
  1700: "numeric",
  2249: "record",
  2950: "uuid",
  3802: "jsonb",
};

/** Elements of arrays, by the array's type. */
const elementTypes: Readonly<Record<number, number>> = {
  1000: 16,
  1005: 21,
  1007: 23,
  1009: 25,
  1016: 20,
  1022: 701,
  1185: 1184,
  1231: 1700,
  2951: 2950,
};

/** Returns the name of a type. */
const typeName = (oid: number): string => {
  const element = elementTypes[oid];
  return element === undefined ? (typeNames[oid] ?? "other") : `${typeName(element)}[]`;
};

/** Converts a value from PostgreSQL's text form to JSON: a number that a double cannot represent exactly stays text. */
const readResultValue = (oid: number, text: string): unknown => {
  switch (oid) {
    case 16:
      return text === "t";
    case 20:
    case 21:
    case 23:
    case 700:
    case 701:
    case 1700:
      return numberOf(text);
    case 114:
    case 3802:
      return JSON.parse(text);
    case 1184:
      return rfc3339Of(text);
    default: {
      const element = elementTypes[oid];
      return element === undefined ? text : arrayOf(text, element);
    }
  }
};

const numberOf = (text: string): number | string => {
  const value = Number(text);
  const isExact =
    Number.isFinite(value) &&
    (!Number.isInteger(value) || Number.isSafeInteger(value)) &&
    text.length <= 17;
  return isExact ? value : text;
};

/** RFC 3339 in UTC; `infinity` and years that it cannot express stay as they are. */
const rfc3339Of = (text: string): string => {
  const [matched, day, time, fraction = ""] =
    /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?\+00$/.exec(text) ?? [];
  return matched === undefined ? text : `${day}T${time}${fraction}Z`;
};

/** Reads the literal of an array of one dimension; one of more stays text. */
const arrayOf = (literal: string, element: number): unknown => {
  if (!literal.startsWith("{") || literal.startsWith("{{")) return literal;
  return Array.from(
    literal.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs),
    ([, quoted, plain = ""]) => {
      if (quoted === undefined) return plain === "NULL" ? null : readResultValue(element, plain);
      return readResultValue(element, quoted.replace(/\\(.)/gs, "$1"));
    },
  );
};

const rowsOf = ({ fields, rows, truncated }: ReadRows): ToolResult => ({
  kind: "rows",
  columns: fields.map(({ name, dataTypeID }) => ({ name, type: typeName(dataTypeID) })),
  rows,
  row_count: rows.length,
  truncated,
});

/** Reads rows until a limit; then calls `enough` and ignores the rest. */
const readRows = (
  client: Client,
  { text, values }: BoundStatement,
  read: ReadRows,
  enough: () => void,
): Promise<void> =>
  new Promise((resolve, reject) => {
    const config = {
      text,
      values: [...values],
      rowMode: "array" as const,
      queryMode: "extended",
      types: { getTypeParser: (type: number) => (value: string) => readResultValue(type, value) },
    };
    const query = new Query<unknown[]>(config);
    const encoder = new TextEncoder();
    query.on("row", (row, result) => {
      if (read.truncated) return;
      if (result) read.fields = result.fields;
      const bytes = encoder.encode(JSON.stringify(row)).length + 1;
      if (read.rows.length === rowsMax || read.bytes + bytes > resultBytesMax) {
        read.truncated = true;
        // The statement returns one row more than the limit: only a large one has more to send.
        if (read.rows.length < rowsMax) enough();
        return;
      }
      read.rows.push(row);
      read.bytes += bytes;
    });
    query.on("end", (result) => {
      read.fields = result.fields;
      resolve();
    });
    query.on("error", reject);
    client.query(query);
  });

/** Calls `exceeded` when the server has sent too much, which limits the incomplete row that the driver keeps in memory. */
const countReceived = (client: Client, exceeded: () => void): void => {
  let received = 0;
  const { stream } = (client as Client & { connection: Connection }).connection;
  stream.on("data", (chunk: Uint8Array) => {
    received += chunk.length;
    if (received > receivedBytesMax) exceeded();
  });
};

/** Cancels the query of a connection, discards further bytes, and resolves when the server has closed the connection. */
const endBackend = (url: string, client: Client): Promise<void> => {
  const { stream } = (client as Client & { connection: Connection }).connection;
  stream.removeAllListeners("data");
  stream.on("data", () => undefined);
  cancel(url, client);
  return new Promise((resolve) => {
    stream.once("close", () => resolve());
    stream.end();
  });
};

const cancelTimeoutMs = 2_000;

/** Requests that the server cancels the query of a connection (its manual, "Canceling Requests in Progress"). */
const cancel = (url: string, running: Client): void => {
  const { processID, secretKey, host, port } = running as Client & {
    processID: number;
    secretKey: number;
  };
  const messenger = new Client({ connectionString: url }) as Client & { connection: Connection };
  const { connection } = messenger as unknown as { connection: CancelConnection };
  connection.on("error", () => undefined);
  connection.on("connect", () => connection.cancel(processID, secretKey));
  if (host.startsWith("/")) connection.connect(`${host}/.s.PGSQL.${port}`);
  else connection.connect(port, host);
  setTimeout(() => destroyClient(messenger), cancelTimeoutMs).unref();
};

/** Members of pg's connection that its types leave out. */
interface CancelConnection {
  on(event: "connect" | "error", listener: () => void): void;
  connect(portOrPath: number | string, host?: string): void;
  cancel(processId: number, secretKey: number): void;
}

const timedOut = ({ statementMs }: QueryLimits): ToolResult =>
  toolError(
    "timeout",
    `the statement took longer than ${statementMs / 1000} s: read fewer rows, or aggregate`,
  );

/** SQLSTATE classes whose message is about the statement: cardinality, data, grouping, names and syntax, limits. */
const aboutStatement = /^(21|22|42|54|0A|P0)/;
const textMax = 300;

/** Returns the error for the model. The role sees only the views, so a message about the statement has no data from outside them. */
const errorOf = (cause: unknown, limits: QueryLimits): ToolResult => {
  const {
    code = "",
    message = "",
    hint,
  } = cause as { code?: string; message?: string; hint?: string };
  if (code === "57014") return timedOut(limits);
  if (code === "42501")
    return toolError("not_permitted", "the statement reads something outside the relations");
  if (aboutStatement.test(code))
    return toolError("query_failed", `${message}${hint ? ` (${hint})` : ""}`.slice(0, textMax));
  if (code === "53400")
    return toolError("query_failed", "the statement needs too much space: read fewer rows");
  if (/^53/.test(code))
    return toolError("too_many_queries", "the database has no room for the query: try again");
  return toolError("database_unavailable", "the database did not answer: try again");
};
