import { loadModule, parseSync } from "libpg-query";
import { beforeAll, describe, expect, it } from "vitest";
import { checkStatement } from "./check-statement.ts";
import { readable } from "./create-chat-sql.ts";

beforeAll(() => loadModule());
const check = (statement: string) => () => checkStatement(statement, parseSync, readable);
const times = (count: number, text: string, separator: string) =>
  Array(count).fill(text).join(separator);
/** A FROM item within so many subqueries. */
const within = (count: number, opening: string, item: string, closing = ") q") =>
  opening.repeat(count) + item + closing.repeat(count);

describe("T4: a statement whose one row PostgreSQL could not end is refused:", () => {
  it.each<[what: string, statement: string, message?: string]>([
    ["a long numeric as text", "select (1e131071 - 1)::text", "exponent"],
    ["a long numeric in a text", "select '1e131071'::numeric", "exponent"],
    ["a long numeric in JSON", "select '[1e131071]'::jsonb::text", "exponent"],
    ["a long literal number", `select ${"9".repeat(4000)} * 2`, "at most 40 digits"],
    [
      "a made text as JSON",
      "select identity::jsonb from collectors",
      "only a literal may be cast to jsonb",
    ],
    [
      "squares of squares",
      `select n from ${within(4, "(select n * n as n from ", "generate_series(2, 3) n")}`,
      "SELECTs that multiply",
    ],
    [
      "many products",
      `select ${times(18, "queue_bytes", " * ")} from collectors`,
      "16 multiplications",
    ],
    ["a power", "select 2 ^ 100000.5", "operator ^ is not allowed"],
    [
      "a text that subqueries double",
      "select x || x from (select state || state as x from collectors) q",
      "outermost SELECT only",
    ],
    [
      "a joined text that is searched",
      "select (state || state) like '%a' from collectors",
      "~~ may not read what || returns",
    ],
    [
      "a joined text in a function",
      "select upper(concat(state, state)) from collectors",
      "upper may not read what concat returns",
    ],
    ["a long joined text", `select ${times(26, "state", "||")} from collectors`, "24 operands"],
    [
      "JSON in JSON as text",
      "select jsonb_build_object('a', jsonb_build_array(state)::text) from collectors",
      "TypeCast may not read",
    ],
    ["rows as text", "select row(1, row(2))::text", "compare rows only"],
    ["whole rows", "select c::text from collectors c", '"c" is a relation'],
    [
      "whole rows under the name of a column",
      "select state from collectors c, (select 1 as a) state",
      '"state" is a column',
    ],
    ["rows of a star", "select count(c.*) from collectors c", "count(*)"],
    [
      "arrays of texts as text",
      "select array[state]::text from collectors",
      "write literals in ARRAY",
    ],
    ["a subquery's array", "select array(select state from collectors)", "array_agg instead"],
    ["char(n)", "select 'x'::char(10000000)", "type bpchar is not allowed"],
    [
      "a pattern of a column",
      "select state like '%' || version from collectors",
      "write a literal as the pattern",
    ],
    [
      "a pattern of a subquery",
      "select state like any (select version from collectors) from collectors",
      "join it",
    ],
    ["long patterns", `select state like '${"%a".repeat(200)}' from collectors`, "384 characters"],
    [
      "a counted regular expression",
      "select state ~ '((a{1,99}){1,99}){1,99}' from collectors",
      "regular expression",
    ],
    [
      "a regular expression with a back reference",
      "select substring(state from '(a*)\\1') from collectors",
      "regular expression",
    ],
    [
      "a replacement that repeats",
      "select regexp_replace(state, 'a', '\\&\\&') from collectors",
      "regexp_replace may replace",
    ],
    [
      "replacements of all",
      "select regexp_replace(state, '', 'aaaa', 'g') from collectors",
      "regexp_replace may replace",
    ],
    [
      "a search for any text",
      "select strpos(state, version) from collectors",
      "function strpos is not allowed",
    ],
    [
      "expressions of expressions",
      `select x from ${within(8, "(select x + x as x from ", "generate_series(1, 2) x")}`,
    ],
    [
      "expressions of CTEs",
      `with a as (select length(state) as x from collectors)${Array.from({ length: 6 }, (_, at) => `, a${at} as (select x + x as x from a${at === 0 ? "" : at - 1})`).join("")} select x from a5`,
    ],
    [
      "expressions of columns of an alias",
      `select x from ${within(8, "(select x + x from ", "generate_series(1, 2) x", ") q(x)")}`,
    ],
    [
      "expressions of CTEs under other names",
      `with a as (select length(state) as x from collectors) select ${times(11, "y", "+")} from a as b(y)`,
    ],
    [
      "expressions of names of names",
      `select x from ${within(6, "(select y - y - y - y as x from (select x as y from ", "(select queue_bytes as x from collectors) s", ") q) r")}`,
    ],
    [
      "expressions of names of columns without a name",
      `select a from ${within(6, "(select abs(a - a) from (select abs as a from ", "(select abs(queue_bytes) from collectors) s", ") q) r")}`.replace(
        "select a from",
        "select abs from",
      ),
    ],
    [
      "expressions that the first branch of a union names",
      `select x from ${within(5, "(select queue_bytes as x from collectors where false union all select x - x - x - x from ", "(select queue_bytes as x from collectors) s")}`,
    ],
    [
      "expressions of columns that core computes",
      `select num_nulls(y, y, y) from (select num_nulls(x, x, x) as y from (select num_nulls(${times(50, "conditions", ", ")}) as x from collectors) q) r`,
      "columns that core computes",
    ],
    [
      "columns that core computes under other names",
      `select num_nulls(x, x, x) from (select num_nulls(${times(50, "c", ", ")}) as x from (select conditions as c from collectors) q) r`,
    ],
    [
      "expressions that a join names as columns",
      `select x from ${within(6, "(select hostname - hostname - hostname as x from (", "(select queue_bytes as x from collectors) s", " cross join (values (1)) as o(one)) as j(hostname, p)) q")}`,
    ],
    [
      "functions in FROM that PostgreSQL replaces by their bodies",
      `select v4.value from audit_events, jsonb_array_elements(details) v0(value)${Array.from({ length: 4 }, (_, at) => `, jsonb_array_elements(coalesce(${times(12, `v${at}.value`, ", ")})) v${at + 1}(value)`).join("")}`,
    ],
    [
      "a condition that moves into subqueries",
      `select x from ${within(9, "(select distinct x - x - x - x as x from ", "(select distinct queue_bytes as x from collectors) s")} where x > 0`,
    ],
    [
      "a condition of a join that moves into subqueries",
      `select 1 from collectors c join ${within(9, "(select x + x as x from ", "(select queue_bytes as x from collectors group by 1) s", " group by 1) q")} on x = c.queue_bytes`,
    ],
    [
      "expressions of columns without a name",
      `select abs from (${within(6, "select abs(abs + abs) from (", "select abs(1)")}) q`,
    ],
    [
      "CTEs that are copied",
      "with a as not materialized (select 1 as b) select b from a",
      "NOT MATERIALIZED",
    ],
    [
      "many relations",
      `select 1 from ${Array.from({ length: 9 }, (_, at) => `collectors c${at}`).join()}`,
      "8 relations",
    ],
    [
      "many calls",
      `select ${times(121, "upper(state)=''", " or ")} from collectors`,
      "120 functions",
    ],
    [
      "many sorted aggregates",
      `select ${times(9, "count(distinct state)", ",")} from collectors`,
      "8 sorted aggregates",
    ],
    [
      "sorted aggregates of grouping sets",
      `select ${times(3, "count(distinct state)", ",")} from collectors group by rollup (platform, version)`,
      "8 sorted aggregates",
    ],
    ["a cube", "select count(*) from collectors group by cube (state, platform)", "no CUBE"],
  ])("%s", (_, statement, message = "AS MATERIALIZED") => {
    expect(check(statement)).toThrow(message);
  });

  it("texts that the parser reads in quadratic time", () => {
    for (const run of ["+-", "/*", "?/*", "*//**/"])
      expect(check(`select 1${run.repeat(4000 / run.length)}`)).toThrow("operator characters");
  });

  it("trees deeper than the stack", () => {
    expect(check(`select 1${"+1".repeat(4000)}`)).toThrow("nested too deeply");
    expect(check(`select ${"(')'||".repeat(1100)}'x'${")".repeat(1100)}`)).toThrow(
      "nested too deeply",
    );
  });
});

it.each([
  "select policy, string_agg(device_id || ' (' || state || ')', ', ' order by device_id) from collectors group by policy",
  "select array_to_string(array_agg(distinct platform), ', ') from collectors",
  "select cardinality(array_agg(device_id)), coalesce(string_agg(hostname, ','), 'none') from collectors",
  "with a as (select lower(identity) as identity from collectors) select regexp_replace(identity, '^spiffe://', '') as identity from a",
  "select device_id || ' on ' || platform || ' since ' || to_char(enrolled_at, 'YYYY-MM-DD HH24:MI') from collectors",
  "select regexp_replace(hostname, '[-. ]', '', 'g') from collectors",
  "select round(100.0 * queue_bytes / nullif(queue_bytes_max, 0), 1) || ' %' as filled from collectors",
  `with a as materialized (select length(state) as x from collectors) select ${times(12, "x", "+")} from a`,
  `select policy, n, hosts, ${times(6, "n - hosts", ", ")} from (select policy, count(*) as n, count(distinct state) as hosts from collectors group by policy) p order by n, hosts`,
  `select h, ${times(12, "h", " || ")} from (select hostname as h from collectors) c where h <> '' and h like 'a%'`,
  "select k, count(*) from audit_events, jsonb_object_keys(details) k group by k",
  "select d.key, d.value from audit_events, jsonb_each_text(details) as d where d.key like '%reason%'",
  "select jsonb_build_object('a', jsonb_build_array(state, policy), 'b', labels) from collectors c",
  "select coalesce(sum(dead_letters), 0) as dead_letters, lower(trim(state)) as state from collectors group by 2",
  "select count(*) from collectors where identity in (select identity from heartbeats)",
  "select identity_id from collectors where running_config_hash = '3f12e4567890' and identity_id = '01920000-0000-7000-8000-12e456789012'",
])("what operators ask for is accepted %s", (statement) => {
  expect(check(statement)).not.toThrow();
});
