import { loadModule, parseSync } from "libpg-query";
import { beforeAll, describe, expect, it } from "vitest";
import { checkStatement } from "./check-statement.ts";
import { readable } from "./create-chat-sql.ts";

beforeAll(() => loadModule());
const check = (statement: string) => () => checkStatement(statement, parseSync, readable);

/** A CTE for each doubling of 16 bytes; `a<count>` is the largest. */
const doubled = (count: number, name = (at: number) => `s${at}`): string =>
  Array.from(
    { length: count },
    (_, at) => `, a${at + 1} as (select ${name(at)} || ${name(at)} as ${name(at + 1)} from a${at})`,
  )
    .join("")
    .replace(/^/, `with a0 as (select 'aaaaaaaaaaaaaaaa' as ${name(0)})`);

describe("T4: a statement whose one call PostgreSQL could not end is refused:", () => {
  it.each([
    ["a value that CTEs double", `${doubled(22)} select length(s22) from a22`],
    ["under one name", `${doubled(22, () => "s")} select strpos(s, 'b' || s) from a22`],
    ["under the name of a column", `${doubled(22, () => "state")} select upper(state) from a22`],
    [
      "by subqueries",
      `select upper(s) from ${"(select s||s||s||s as s from ".repeat(8)}(select state as s from collectors) x${") x".repeat(8)}`,
    ],
    [
      "by columns of an alias",
      `with a0(s) as (select 'x')${Array.from({ length: 24 }, (_, at) => `, a${at + 1}(s) as (select s||s from a${at})`).join("")} select s from a24`,
    ],
    [
      "by columns without a name",
      `with a0 as (select coalesce('x'))${Array.from({ length: 24 }, (_, at) => `, a${at + 1} as (select coalesce("coalesce"||"coalesce") from a${at})`).join("")} select * from a24`,
    ],
    [
      "by one replacement of another",
      `select upper(replace(replace('${"a".repeat(2000)}', 'a', '${"a".repeat(1500)}'), 'a', 'aa'))`,
    ],
    ["by regexp_replace", `select upper(regexp_replace('${"a".repeat(2000)}', 'a', '${"a".repeat(1500)}', 'g'))`],
    ["by quotes in rows of rows", `select ${"row(".repeat(22)}'"'${")".repeat(22)}::text`],
    ["by JSON in JSON", `select ${"to_json(".repeat(22)}'"'${"::text)".repeat(22)}`],
    ["by char(n)", "select upper('x'::char(10000000))"],
    ["by exponents in JSON", `select '[${Array(20).fill("1e131071").join()}]'::jsonb::text`],
    ["by whole rows", `select a::text from ${"(select a from ".repeat(12)}collectors a${") a".repeat(12)}`],
    ["what an aggregate collected", "select upper(string_agg(details::text, '')) from audit_events, collectors"],
    ["what an array collected", "select upper(array(select device_id from collectors)::text)"],
    [
      "collected under a name",
      "with a as (select string_agg(identity, '') as x from collectors) select strpos(x, x) from a",
    ],
    ["long literals in each row", `select array_agg('${"x".repeat(7000)}' || i) from generate_series(1, 10000000) i`],
    ["multiplications", `with a as (select 1e65000::numeric - 1 as x) select ${Array(100).fill("x").join("*")} from a`],
  ])("%s", (_, statement) => {
    expect(check(statement)).toThrow(/too long|longer|collect|multiplications|whole/);
  });

  it("texts that the parser reads in quadratic time", () => {
    for (const run of ["+-", "/*", "?/*", "*//**/"])
      expect(check(`select 1${run.repeat(4000 / run.length)}`)).toThrow("operator characters");
  });

  it("trees deeper than the stack", () => {
    expect(check(`select 1${"+1".repeat(4000)}`)).toThrow("nested too deeply");
    expect(check(`select ${"(')'||".repeat(1100)}'x'${")".repeat(1100)}`)).toThrow("nested too deeply");
  });
});

describe("what operators ask for is accepted:", () => {
  it.each([
    "select policy, string_agg(device_id || ' (' || state || ')', ', ' order by device_id) from collectors group by policy",
    "select array_to_string(array_agg(distinct platform), ', ') from collectors",
    "select cardinality(array_agg(device_id)), coalesce(string_agg(hostname, ','), 'none') from collectors",
    "with a as (select lower(identity) as identity from collectors) select replace(identity, 'spiffe://', '') as identity from a",
    "select device_id || ' on ' || platform || ' since ' || to_char(enrolled_at, 'YYYY-MM-DD HH24:MI') from collectors",
    "select replace(replace(replace(hostname, '-', '_'), '.', '_'), ' ', '') from collectors",
    "select round(100.0 * queue_bytes / nullif(queue_bytes_max, 0), 1) || ' %' as filled from collectors",
    "select k, count(*) from audit_events, jsonb_object_keys(details) k group by k",
    "select d.key, d.value from audit_events, jsonb_each_text(details) as d where d.key like '%' || d.value || '%'",
    "select jsonb_build_object('a', jsonb_build_array(state, policy), 'b', row_to_json(c)) from collectors c",
    "select coalesce(sum(dead_letters), 0) as dead_letters, lower(trim(state)) || ':' as state from collectors group by 2",
    "select count(*) from collectors where identity = any(array(select identity from heartbeats))",
  ])("%s", (statement) => {
    expect(check(statement)).not.toThrow();
  });
});
