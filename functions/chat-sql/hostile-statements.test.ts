import fc from "fast-check";
import { loadModule, parseSync } from "libpg-query";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import {
  endlessStatement,
  hostileStatements,
  refusedByParserOnly,
} from "#tests/support/chat/hostile-statements.ts";
import { emptyFleetRules } from "#tests/support/database/role-server.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { readMigrations } from "../node/read-migrations.ts";
import { connectDatabase } from "../store/database/database.ts";
import { migrate } from "../store/database/migrate.ts";
import { makeChatRole } from "./chat-role.ts";
import { checkStatement } from "./check-statement.ts";
import { boundStatement, readable, urlsFor } from "./create-chat-sql.ts";
import { runQuery } from "./run-query.ts";
import { StatementRefused } from "./statement-bounds.ts";

// A server of its own: it takes privileges from PUBLIC. Core's role is a superuser here.
const server = await startEmbeddedPostgres();
const core = connectDatabase({ url: server.url(), connectionsMax: 2, deadlineMs: 60_000 });
afterAll(async () => {
  await core.close();
  await server.stop("immediate");
});

let chatUrl = "";
beforeAll(async () => {
  await loadModule();
  await migrate(core.sql, await readMigrations());
  const { login, exposures } = await makeChatRole(core.db, {
    secret: "s".repeat(32),
    secretPrevious: null,
    revokePublic: true,
  });
  expect(exposures).toEqual([]);
  [chatUrl = ""] = urlsFor(server.url(), login);
});

const rules = emptyFleetRules();
const { signal } = new AbortController();
const limits = { statementMs: 1_000, connectMs: 10_000 };

/** Runs `map` over all items, eight at a time; returns the results in the items' order. */
const inParallel = async <Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Promise<Result>,
) => {
  const results: Result[] = [];
  const entries = items.entries();
  const work = async () => {
    for (const [index, item] of entries) results[index] = await map(item);
  };
  await Promise.all(Array.from({ length: 8 }, work));
  return results;
};

const isRefusedByParser = (statement: string) => {
  try {
    checkStatement(statement, parseSync, readable);
    return false;
  } catch (cause) {
    if (cause instanceof StatementRefused) return true;
    throw cause;
  }
};

describe("T1: a hostile statement", () => {
  it("is one of more than 300 different ones", () => {
    expect(new Set(hostileStatements).size).toBeGreaterThan(300);
  });

  it("is refused by the parser alone", () => {
    const all = [...hostileStatements, ...refusedByParserOnly, endlessStatement];
    expect(all.filter((statement) => !isRefusedByParser(statement))).toEqual([]);
  });

  it("is refused by the role alone, with the parser switched off", async () => {
    const results = await inParallel(hostileStatements, async (statement) => {
      const result = await runQuery(chatUrl, boundStatement(statement, rules), { signal, limits });
      return { statement, outcome: result.kind === "error" ? result.code : JSON.stringify(result) };
    });
    const refusals = ["not_permitted", "query_failed"];
    expect(results.filter(({ outcome }) => !refusals.includes(outcome))).toEqual([]);
  });

  it("is refused by the role's privileges alone, sent without the wrapper in a session that may write", async () => {
    const before = await fingerprint();
    const results = await inParallel(hostileStatements, async (statement) => {
      const client = new Client({ connectionString: chatUrl });
      client.on("error", () => undefined);
      await client.connect();
      await client.query("set default_transaction_read_only = off; set statement_timeout = '1s'");
      const outcome = await client.query(statement).then(
        () => "accepted",
        (cause: { code?: string; message: string }) => cause.code ?? cause.message,
      );
      await client.end();
      return { statement, outcome };
    });
    const accepted = results
      .filter(({ outcome }) => outcome === "accepted")
      .map(({ statement }) => statement);
    expect(accepted.sort()).toEqual([...acceptedAlone].sort());
    expect(results.filter(({ outcome }) => /^(57|53|08|XX)/.test(outcome))).toEqual([]);
    expect(await fingerprint()).toEqual(before);
  });

  it("that never ends is cancelled by the timeout of the role", async () => {
    const text =
      "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b where a + b > 0";
    const result = await runQuery(chatUrl, { text, values: [] }, { signal, limits });
    expect(result).toMatchObject({ kind: "error", code: "timeout" });
  });

  it("T4: that returns one value of 100 MB is cut off by core, with the parser switched off", async () => {
    const before = process.memoryUsage().rss;
    const result = await runQuery(chatUrl, boundStatement("select repeat('x', 100000000)", rules), {
      signal,
      limits: { ...limits, statementMs: 20_000 },
    });
    expect(result).toMatchObject({ kind: "error", code: "result_too_large" });
    expect(process.memoryUsage().rss - before).toBeLessThan(128 * 1024 * 1024);
  });

  it("is refused by the parser in any other spelling, and inside other statements", () => {
    // A command of one word would be the name of a column elsewhere; those that close the wrapper's bracket depend on where they stand.
    const commands = hostileStatements.filter(
      (statement) => statement.includes(" ") && !statement.startsWith("select 1)"),
    );
    const statements = fc.constantFrom(...commands);
    const comment = fc.constantFrom(
      "/**/",
      "/* select 1 */",
      "-- x\n",
      "\n",
      "\t",
      "  ",
      "/* /* a */ b */",
    );
    const around = fc.constantFrom<(text: string) => string>(
      (text) => text,
      (text) => `select * from (${text}) q`,
      (text) => `with a as (${text}) select * from a`,
      (text) => `with a as (select 1), b as (${text}) select 1 from a`,
      (text) => `select 1 where exists (${text})`,
      (text) => `select (${text})`,
      (text) => `select 1; ${text}`,
      (text) => `${text}; select 1`,
      (text) => `select 1 union all (${text})`,
      (text) => `select 1 from collectors c left join lateral (${text}) x on true`,
      (text) => `/* select 1 */ ${text} -- ) q`,
      (text) => `select case when false then (${text}) end`,
      (text) => text.toUpperCase(),
      (text) => text.replace(/\b[a-z_]+(?=\()/g, (name) => `"${name}"`),
      (text) => text.replace(/\b[a-z_]+(?=\()/g, (name) => `pg_catalog.${name}`),
    );
    const property = fc.property(
      statements,
      around,
      comment,
      around,
      (statement, inner, gap, outer) => {
        const spaced = statement.replace(/(?<=[a-z]) (?=[a-z(])/g, gap);
        return isRefusedByParser(outer(inner(spaced)));
      },
    );
    fc.assert(property, { numRuns: runsOf(2_000), seed: 20_261_122 });
  });
});

/** Statements without a privilege of their own and without an effect on what others see. They are no SELECT, so core cannot send them. */
const acceptedAlone = [
  "alter role current_user set statement_timeout = 0",
  "prepare transaction 'x'",
];

/** Everything that the statements try to change. */
const fingerprint = async () => {
  const [row] = await core.sql`select
    (select count(*) from pg_class) as relations, (select count(*) from pg_proc) as functions,
    (select count(*) from pg_roles) as roles, (select count(*) from pg_database) as databases,
    (select count(*) from pg_largeobject_metadata) as large_objects, (select count(*) from pg_locks where locktype = 'advisory') as locks,
    (select count(*) from audit_event) as events, (select count(*) from person) as people,
    (select md5(string_agg(oid::text || coalesce(relacl::text, ''), ',' order by oid)) from pg_class) as privileges`;
  return row;
};
