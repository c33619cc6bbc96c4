import { sql } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import { loadModule, parseSync } from "libpg-query";
import { errorCode } from "#kit/describe-error.ts";
import type { Secret } from "#kit/secret.ts";
import { type RelationSummary, rowsMax, type ToolResult, toolError } from "#proto/chat/session.ts";
import type { Database } from "../store/database/database.ts";
import type { FleetRules, FleetThresholds } from "../store/fleet/conditions.ts";
import { adoptChatRole, type ChatLogin, ChatRoleFault, makeChatRole } from "./chat-role.ts";
import { checkStatement, type Readable } from "./check-statement.ts";
import { admitRoles } from "./public-role.ts";
import { computedColumns, relations, relationsAt } from "./relations.ts";
import { type BoundStatement, LoginRejected, type QueryOptions, runQuery } from "./run-query.ts";
import { StatementRefused } from "./statement-bounds.ts";

/** The SQL tools of the chat agent: a fixed set of relations, read by a login role that can read nothing else. */
export interface ChatSql {
  relations(): readonly RelationSummary[];
  /** Returns the columns, units and rules of a relation; a result of kind `error` for an unknown name. */
  describe(name: string): ToolResult;
  /**
   * Runs one SELECT and returns its rows. Returns a result of kind `error` for a rejected or failed statement, for the model to correct; its
   * message names the rule, and has no data from outside the relations. On abort, cancels the query and rejects with the signal's reason.
   */
  query(statement: string, signal: AbortSignal): Promise<ToolResult>;
  close(): Promise<void>;
}

/** The dependencies of the SQL tools. */
export interface ChatSqlNeeds {
  /** Core's own database, only for the role and its privileges. Its calls may take seconds. */
  db: Database;
  /** Returns the URL of the server in use, as core's own role. */
  locate(): Promise<string>;
  /** SVC_CHAT_DATABASE_URL: the login of a role that an administrator made; null to make one. */
  url: Pick<Secret, "reveal"> | null;
  /** SVC_AUTH_TOKEN_SECRET, which all cores of a deployment share: the password of the role is derived from it. */
  secret: string;
  /** SVC_AUTH_TOKEN_SECRET_PREVIOUS: during a rotation, another core may have set the role's password from it. */
  secretPrevious?: string | null;
  thresholds: FleetThresholds;
  /** Returns the rules that decide the states now. */
  readRules(): Promise<FleetRules>;
  /** False leaves PUBLIC its privileges: for databases on a server that tests share. Default true. */
  revokePublic?: boolean;
}

/** The tools, or why there are none; and warnings for the operator. */
export interface CreatedChatSql {
  sql: ChatSql | null;
  offReason: string | null;
  warnings: readonly string[];
  /**
   * Grants roles that were created since the last call the privileges that core revoked from PUBLIC, also without tools. Returns the names of the
   * roles that lack them because core may not grant them. Idempotent; call it every few seconds.
   */
  admitRoles(): Promise<readonly string[]>;
}

/** Creates the SQL tools, with their role. Rejects when the database is unavailable. */
export const createChatSql = async (needs: ChatSqlNeeds): Promise<CreatedChatSql> => {
  const { db, url, revokePublic = true } = needs;
  const admit = async () =>
    revokePublic ? retried(() => admitRoles(db, url === null ? "" : roleOf(url.reveal()))) : [];
  try {
    await loadModule();
    const { urlsOf, exposures } = await retried(() => prepareRole(needs));
    const runAsRole = createRoleRunner(urlsOf);
    await tryLogin(runAsRole);
    return {
      sql: toolsOf(needs, runAsRole),
      offReason: null,
      warnings: exposureWarnings(exposures),
      admitRoles: admit,
    };
  } catch (cause) {
    if (!(cause instanceof ChatRoleFault)) throw cause;
    const offReason = `${cause.message}; docs/chat-sql.md has the statements for an administrator`;
    const warnings = [`the SQL tools of the chat are off: ${offReason}`];
    return { sql: null, offReason, warnings, admitRoles: admit };
  }
};

/** Retries `work`, because other roles of the server may be dropped or changed while it runs. */
const retried = async <Result>(work: () => Promise<Result>, attempts = 3): Promise<Result> => {
  try {
    return await work();
  } catch (cause) {
    const code = errorCode(cause) ?? errorCode((cause as Error).cause);
    if (attempts > 1 && (code === undefinedObject || code === concurrentUpdate))
      return retried(work, attempts - 1);
    throw cause;
  }
};

const undefinedObject = "42704";
const concurrentUpdate = "XX000";

const prepareRole = async ({
  db,
  locate,
  url,
  secret,
  secretPrevious = null,
  revokePublic = true,
}: ChatSqlNeeds) => {
  if (url !== null) {
    let role = roleOf(url.reveal());
    const { exposures } = await adoptChatRole(db, { role, revokePublic });
    const urlsOf = async () => {
      const newest = url.reveal();
      // Core checks another role before a statement runs as it.
      if (roleOf(newest) !== role) await adoptChatRole(db, { role: roleOf(newest), revokePublic });
      role = roleOf(newest);
      return [newest];
    };
    return { urlsOf, exposures };
  }
  const { login, exposures } = await makeChatRole(db, { secret, secretPrevious, revokePublic });
  return { urlsOf: async () => urlsFor(await locate(), login), exposures };
};

const roleOf = (url: string) => decodeURIComponent(new URL(url).username);

/** Returns core's URL with another login, once for each password. Removes parameters that could change the login. */
export const urlsFor = (coreUrl: string, { role, passwords }: ChatLogin): string[] =>
  passwords.map((password) => {
    const url = new URL(coreUrl);
    url.username = role;
    url.password = password;
    for (const name of ["user", "password", "options", "application_name"])
      url.searchParams.delete(name);
    return url.href;
  });

/** Runs a statement as the role of the tools; resolves and rejects as `runQuery`. */
type RunAsRole = (statement: BoundStatement, options: QueryOptions) => Promise<ToolResult>;

/** Runs statements with the last accepted password. If the server rejects it, another core has set another one: tries the next. */
const createRoleRunner = (urlsOf: () => Promise<readonly string[]>): RunAsRole => {
  let accepted = 0;
  return async (statement, options) => {
    const urls = await urlsOf().catch((cause: unknown) => {
      if (cause instanceof ChatRoleFault) return [];
      throw cause;
    });
    const order = urls.map((_, index) => (accepted + index) % urls.length);
    for (const index of order)
      try {
        const result = await runQuery(urls[index] ?? "", statement, options);
        accepted = index;
        return result;
      } catch (cause) {
        if (!(cause instanceof LoginRejected)) throw cause;
      }
    return toolError("database_unavailable", "the database rejects the role of the tools");
  };
};

const tryLogin = async (runAsRole: RunAsRole) => {
  const result = await runAsRole(
    { text: "select 1", values: [] },
    { signal: AbortSignal.timeout(10_000) },
  );
  if (result.kind === "error")
    throw new ChatRoleFault("the database does not admit the role of the chat's SQL tools");
};

const exposureWarnings = (exposures: readonly string[]): string[] => {
  if (exposures.length === 0) return [];
  const named = exposures.slice(0, 5).join(", ");
  return [
    `every role of this database, that of the chat's SQL tools too, keeps ${exposures.length} privileges that core may not revoke (${named}, …): the statements are still checked by the parser (docs/chat-sql.md)`,
  ];
};

/** The relations that a statement may read. */
export const readable: Readable = {
  relations: new Set(relations.map(({ name }) => name)),
  columns: new Set(relations.flatMap(({ columns }) => columns.map(({ name }) => name))),
  computed: computedColumns,
};

/** The most concurrent queries of one core, so that its other work is not slowed down. */
const runningMax = 2;
const waitingMax = 64;
const waitMsMax = 15_000;

/** A query, which may keep its slot after its result, until its backend has ended. */
type Slotted = (
  signal: AbortSignal,
  keepUntil: (ended: Promise<void>) => void,
) => Promise<ToolResult>;

/** Runs few queries at a time; the others wait in order. */
const createQueryQueue = () => {
  const closing = new AbortController();
  const waiting = new Set<() => void>();
  const running = new Set<Promise<unknown>>();
  let active = 0;
  const leave = () => {
    active -= 1;
    const [next] = waiting;
    if (next === undefined) return;
    waiting.delete(next);
    next();
  };
  const enter = async (signal: AbortSignal) => {
    if (active < runningMax) {
      active += 1;
      return true;
    }
    if (waiting.size >= waitingMax) return false;
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const admit = () => {
      active += 1;
      resolve(true);
    };
    waiting.add(admit);
    const timer = setTimeout(() => {
      waiting.delete(admit);
      resolve(false);
    }, waitMsMax);
    const abort = () => {
      waiting.delete(admit);
      reject(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    }
  };
  return {
    /** Runs `query` when its turn comes. Resolves with an error of code `too_many_queries` when that takes too long. */
    run: async (callerSignal: AbortSignal, query: Slotted): Promise<ToolResult> => {
      const signal = AbortSignal.any([callerSignal, closing.signal]);
      signal.throwIfAborted();
      if (!(await enter(signal)))
        return toolError("too_many_queries", "other queries are running: try again");
      let ended = Promise.resolve();
      const result = query(signal, (promise) => {
        ended = promise;
      }).finally(() => void ended.finally(leave));
      running.add(result);
      try {
        return await result;
      } finally {
        running.delete(result);
      }
    },
    /** Aborts running and waiting queries, and resolves when none runs. */
    close: async () => {
      closing.abort(new Error("core is stopping"));
      await Promise.allSettled(running);
    },
  };
};

const toolsOf = ({ thresholds, readRules }: ChatSqlNeeds, runAsRole: RunAsRole): ChatSql => {
  const queue = createQueryQueue();
  return {
    relations: () => relations.map(({ name, description }) => ({ name, description })),
    describe: (name) => {
      const found = relations.find((relation) => relation.name === name);
      if (found === undefined)
        return toolError(
          "unknown_relation",
          `there is no such relation; there are ${[...readable.relations].join(", ")}`,
        );
      const { description, columns } = found;
      return {
        kind: "relation",
        name,
        description,
        columns: [...columns],
        notes: [...found.notes(thresholds)],
      };
    },
    query: async (statement, signal) => {
      signal.throwIfAborted();
      let checked: string;
      try {
        checked = checkStatement(statement, parseSync, readable);
      } catch (cause) {
        if (cause instanceof StatementRefused) return toolError("statement_refused", cause.message);
        throw cause;
      }
      return queue.run(signal, async (stopped, keepUntil) =>
        runAsRole(boundStatement(checked, await readRules()), { signal: stopped, keepUntil }),
      );
    },
    close: () => queue.close(),
  };
};

const dialect = new PgDialect();

/** Returns a statement of the model as core sends it: after the CTEs, limited to one row more than a result has. */
export const boundStatement = (statement: string, rules: FleetRules) => {
  // On lines of its own: the statement may end in a comment.
  const whole = sql`with ${relationsAt(rules)} select * from (\n${sql.raw(statement)}\n) q limit ${sql.raw(String(rowsMax + 1))}`;
  const { sql: text, params } = dialect.sqlToQuery(whole);
  return { text, values: params };
};
