import { readFileSync } from "node:fs";
import { sql } from "drizzle-orm";
import { afterAll, describe, expect, it } from "vitest";
import { dayMs, systemClock } from "#kit/clock.ts";
import type { ToolResult } from "#proto/chat/session.ts";
import { packNotes } from "#proto/completeness/hour-note.ts";
import {
  byteOfState,
  hourStates,
  incompleteStates,
  shortageKinds,
  shortRecords,
} from "#proto/completeness/hour-state.ts";
import { fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { parseProcessTimes } from "#scripts/bench/support/processes.ts";
import { harmlessStatements } from "#tests/support/chat/harmless-statements.ts";
import { useTestCore } from "#tests/support/core.ts";
import { eventually } from "#tests/support/eventually.ts";
import { isSlow } from "#tests/support/is-slow.ts";
import { readFleetRules } from "../domain/fleet/rules.ts";
import { fleetThresholds } from "../domain/fleet/thresholds.ts";
import { addHourCounts, dayAt, saveDays } from "../store/completeness/days.ts";
import { arrayLiteral } from "../store/database/statements.ts";
import { createChatSql } from "./create-chat-sql.ts";
import { functions } from "./statement-grammar.ts";

const test = await useTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
const { sql: tools, offReason } = await createChatSql({
  db: test.db,
  locate: async () => test.databaseUrl,
  url: null,
  secret: test.config.authTokenSecret.reveal(),
  thresholds: fleetThresholds(test.config),
  readRules: () => readFleetRules(test.core),
  revokePublic: false,
});
afterAll(() => tools?.close());
await test.seedFleet(320);

const query = async (statement: string, signal = new AbortController().signal) => {
  if (tools === null) throw new Error(offReason ?? "no tools");
  return tools.query(statement, signal);
};
const rows = async (statement: string) => {
  const result = await query(statement);
  if (result.kind !== "rows") throw new Error(`${statement}: ${JSON.stringify(result)}`);
  return result.rows;
};

const health = async (query = "limit=1000") => test.health(query);
/** A time as a statement returns it. */
const short = (time: string | null | undefined) => time?.replace(".000Z", "Z") ?? null;
const endless =
  "select count(*) from generate_series(1, 100000) a, generate_series(1, 100000) b where a + b > 0";

describe("the relations", () => {
  it("collectors has the state and the conditions of GET /v1/collector/health for every host", async () => {
    const { items } = await health();
    const found = new Map<unknown, unknown[]>();
    for (const half of ["<", ">="])
      for (const [id, ...rest] of await rows(
        `select identity_id, state, conditions, drift, certificate_status from collectors where device_id ${half} 'host-250'`,
      ))
        found.set(id, rest);
    expect(items).toHaveLength(320);
    for (const { identity_id, state, conditions, config, certificate } of items)
      expect(found.get(identity_id)).toEqual([
        state,
        conditions.map((each) => each.state),
        config.drift,
        certificate.status,
      ]);
  });

  it("collectors has the hosts that a budget holds as budget:held finds them", async () => {
    const until = (seconds: number) => test.clock.iso(seconds * 1000);
    await test.db.execute(sql`insert into held_host (host_id, identity_id, budget, since, until)
      select identity, identity_id, 'small', now(), (case when device_id = 'host-9' then ${until(-1)} else ${until(60)} end)::timestamptz
      from fleet_host where device_id in ('host-7', 'host-8', 'host-9')`);
    const { items } = await health("budget=held");
    const held = items.map(({ device_id, hold }) => [device_id, hold?.budget, short(hold?.until)]);
    expect(
      await rows(
        "select device_id, held_by_budget, held_until from collectors where held_until is not null order by 1",
      ),
    ).toEqual(held.toSorted());
    expect(await rows("select count(held_by_budget) from collectors")).toEqual([[2]]);
  });

  it("incomplete_hours and completeness_hours name states and shortages as everything else does", async () => {
    const host = "https://fleet.example.test/dc-1/host-1";
    const day = dayAt(Date.now()) - 1;
    const shortages = shortageKinds.map((kind, index) => ({ kind, count: 10 ** index }));
    const states = new Uint8Array(24);
    for (const [hour, state] of hourStates.entries()) states[hour] = byteOfState(state);
    const short = hourStates.indexOf("short");
    const details = packNotes(new Map([[short, { accepted: 8, stored: 7, shortages }]]));
    await saveDays(test.db, [
      { host, day, states, details, incompleteHours: 4, undelivered: 0, xid: null },
    ]);
    await addHourCounts(test.db, new Map([[day * dayMs, hourStates.map((_, index) => index)]]));
    const found = await rows(
      "select device_id, extract(hour from hour)::int, state, accepted, stored, records_short, short_of from incomplete_hours order by hour",
    );
    const names = [
      "account_refused",
      ...shortageKinds.filter((kind) => kind !== "account_refused"),
    ];
    expect(found).toEqual(
      hourStates.flatMap((state, hour) =>
        incompleteStates.includes(state)
          ? [
              state === "short"
                ? ["host-1", hour, state, 8, 7, shortRecords(shortages.slice(1)), names.join(", ")]
                : ["host-1", hour, state, null, null, null, null],
            ]
          : [],
      ),
    );
    expect(await rows(`select ${hourStates.join(", ")} from completeness_hours`)).toEqual([
      hourStates.map((_, index) => index),
    ]);
  });

  it("host_history has the intervals of a host that have ended, and host_silences what did not come", async () => {
    const [{ identity_id: id } = { identity_id: "" }] = await test.db.execute(
      sql`select identity_id from fleet_host where device_id = 'host-2'`,
    );
    await test.db.execute(sql`delete from fleet_history`);
    for (const [hour, version] of [
      ["01", "1.0.0"],
      ["02", "1.1.0"],
    ])
      await test.db.execute(sql`insert into fleet_history
        select (jsonb_populate_record(null::fleet_history, to_jsonb(h) || jsonb_build_object('version', ${version}::text,
          'until_at', ${`2026-06-01T${hour}:00:00Z`}::text))).* from fleet_host h where device_id = 'host-2'`);
    await test.db.execute(sql`insert into fleet_silence (identity_id, is_of_envelopes, from_at, until_at, queue_bytes) values
      (${id}::uuid, false, '2026-06-01T01:00Z', '2026-06-01T02:00Z', 0), (${id}::uuid, true, '-infinity', '2026-06-01T01:00Z', -1)`);
    expect(
      await rows(
        "select device_id, from_at, until_at, version from host_history where device_id = 'host-2' order by until_at",
      ),
    ).toEqual([
      ["host-2", null, "2026-06-01T01:00:00Z", "1.0.0"],
      ["host-2", "2026-06-01T01:00:00Z", "2026-06-01T02:00:00Z", "1.1.0"],
    ]);
    expect(
      await rows(
        "select device_id, silent_of, from_at, until_at from host_silences order by until_at",
      ),
    ).toEqual([
      ["host-2", "envelopes", null, "2026-06-01T01:00:00Z"],
      ["host-2", "heartbeats", "2026-06-01T01:00:00Z", "2026-06-01T02:00:00Z"],
    ]);
  });

  it("volume_days has the days of hosts, also of those that are not enrolled", async () => {
    await test.db.execute(sql`insert into volume_day (host_id, day, kind, envelopes, payload_bytes) values
      ('https://fleet.example.test/dc-1/host-1', 20605, 'log_line', 4, 400), ('stray', 20605, 'other', 1, 7)`);
    expect(
      await rows(
        "select device_id, identity, day, kind, envelopes, payload_bytes from volume_days order by kind",
      ),
    ).toEqual([
      [
        "host-1",
        "https://fleet.example.test/dc-1/host-1",
        "2026-06-01T00:00:00Z",
        "log_line",
        4,
        400,
      ],
      [null, "stray", "2026-06-01T00:00:00Z", "other", 1, 7],
    ]);
  });

  it("inventory counts as GET /v1/collector/inventory does, by device id and by identity", async () => {
    const hosts = ["host-1", "https://fleet.example.test/dc-1/host-1", "host-2", "nowhere-1"].map(
      (name) => ({ name }),
    );
    const put = async (list: typeof hosts) =>
      expect(await test.admin.put("/v1/collector/inventory", { hosts: list })).toMatchObject({
        status: 200,
      });
    await put([...hosts, { name: "host-3" }]);
    await put(hosts);
    expect(
      await rows(
        "select name, device_id, is_expected, is_enrolled, removed_at is null from inventory order by name",
      ),
    ).toEqual([
      ["host-1", "host-1", true, true, true],
      ["host-2", "host-2", true, true, true],
      ["host-3", "host-3", false, true, false],
      ["https://fleet.example.test/dc-1/host-1", "host-1", true, true, true],
      ["nowhere-1", null, true, false, true],
    ]);
  });

  it("watches and watch_events say how each stands and what happened, and not who is told", async () => {
    const body = { name: "too many stale", filter: "state:stale", more_than: 3, for_seconds: 60 };
    const { status, body: made } = await test.admin.post("/v1/collector/watches", body);
    expect(status).toBe(201);
    await test.db.execute(
      sql`update watch set is_firing = true, count = 9, receivers = array['pager']`,
    );
    await test.db.execute(sql`insert into watch_event (watch_id, at, kind, count, receiver, detail) values
      (${made.id}::uuid, '2026-06-01T01:00Z', 'firing', 9, null, null),
      (${made.id}::uuid, '2026-06-01T01:01Z', 'dropped', null, 'pager', 'https://pager.example/secret')`);
    expect(
      await rows(
        "select watch_id, name, filter, more_than, for_seconds, state, matching_hosts from watches",
      ),
    ).toEqual([[made.id, "too many stale", "state:stale", 3, 60, "firing", 9]]);
    expect(
      await rows(
        "select name, occurred_at, kind, matching_hosts from watch_events order by occurred_at",
      ),
    ).toEqual([
      ["too many stale", "2026-06-01T01:00:00Z", "firing", 9],
      ["too many stale", "2026-06-01T01:01:00Z", "dropped", null],
    ]);
    for (const relation of ["watches", "watch_events"])
      expect(JSON.stringify(await rows(`select * from ${relation}`))).not.toContain("pager");
  });
});

describe("a statement of a model", () => {
  it("is accepted: 83 as models write them", async () => {
    expect(harmlessStatements.length).toBeGreaterThan(70);
    const results: { statement: string; result: ToolResult }[] = [];
    for (const statement of harmlessStatements)
      results.push({ statement, result: await query(statement) });
    expect(results.filter(({ result }) => result.kind !== "rows")).toEqual([]);
  });

  it("gives the right rows", async () => {
    const { items, summary } = await health();
    const states = await rows("select state, count(*) from collectors group by state order by 1");
    const counted = Object.entries(summary.by_state).filter(([, count]) => count > 0);
    expect(states).toEqual(counted.toSorted());
    const stale = items.filter(({ conditions }) =>
      conditions.some(({ state }) => state === "stale"),
    );
    expect(await rows("select count(*) from collectors where 'stale' = any(conditions)")).toEqual([
      [stale.length],
    ]);
    const [first] = items;
    expect(
      await rows(`select identity, enrolled_at, last_heartbeat_at, queue_bytes, desired_config_hash, certificate_not_after
        from collectors where identity_id = '${first?.identity_id}'`),
    ).toEqual([
      [
        first?.identity,
        short(first?.enrolled_at),
        short(first?.last_heartbeat_at),
        first?.queue.bytes,
        first?.config.desired_config_hash,
        short(first?.certificate.not_after),
      ],
    ]);
    const statuses = Map.groupBy(items, ({ certificate }) => certificate.status);
    const ofCertificates = await rows(
      "select k.status, count(*) from certificates k join collectors c on c.certificate_id = k.id group by 1 order by 1",
    );
    expect(ofCertificates).toEqual(
      [...statuses].map(([status, some]) => [status, some.length]).sort(),
    );
  });

  it("returns values as JSON has them", async () => {
    const result =
      await query(`select true, 1::int, 9007199254740993::bigint, 0.1::numeric, 1.5::float8, null::text, '{"a":[1]}'::jsonb,
      array['a "b"', null, '\\\\'], array[1,2], timestamptz '2026-01-02 03:04:05.678+00', date '2026-01-02', interval '1 day 2 hours',
      'NaN'::float8, 12345678901234567890.5::numeric, 'é' as text`);
    expect(result).toMatchObject({
      rows: [
        [
          true,
          1,
          "9007199254740993",
          0.1,
          1.5,
          null,
          { a: [1] },
          ['a "b"', null, "\\\\"],
          [1, 2],
          "2026-01-02T03:04:05.678Z",
          "2026-01-02",
          "1 day 02:00:00",
          "NaN",
          "12345678901234567890.5",
          "é",
        ],
      ],
      row_count: 1,
      truncated: false,
    });
  });

  it.each<[statement: string, message: string, code?: string]>([
    ["select 1; select 2", "send exactly one statement"],
    ["", "syntax error: it cannot be parsed"],
    ["-- nothing", "send exactly one statement"],
    ["selec 1", 'syntax error: syntax error at or near "selec"'],
    ["delete from collectors", "only SELECT is allowed"],
    ["select 1\0; drop table person", "the statement holds a character that SQL does not allow"],
    [`select '${"x".repeat(9000)}'`, "the statement is longer than 8192 bytes"],
    [`select ${"(".repeat(100)}1${")".repeat(100)}`, "the statement is nested too deeply"],
    [`select ${"not ".repeat(1500)}true`, "the statement is nested too deeply"],
    [
      "select * from persons",
      'relation "persons" does not exist; there are collectors, heartbeats, certificates, config_assignments, audit_events, enrollment_policies, ingest_hours, incomplete_hours, completeness_hours, host_history, host_silences, volume_days, inventory, watches, watch_events',
    ],
    ["select nothing from collectors", 'column "nothing" does not exist', "query_failed"],
    [
      "select device from collectors",
      'column "device" does not exist (Perhaps you meant to reference the column "collectors.device_id".)',
      "query_failed",
    ],
    ["select 1 / 0", "division by zero", "query_failed"],
    [
      "select state from collectors group by platform",
      'column "collectors.state" must appear in the GROUP BY clause or be used in an aggregate function',
      "query_failed",
    ],
    ["select repeat('x', 10)", "function repeat is not allowed"],
    ["select a.b.c from collectors", "write columns as name or alias.name"],
  ])(
    "is refused with the reason: %.40s",
    async (statement, message, code = "statement_refused") => {
      expect(await query(statement)).toEqual({ kind: "error", code, message });
    },
  );
});

describe("T4: a result that is too large", () => {
  it("has 200 rows", async () => {
    for (const [count, truncated] of [
      [100_000_000, true],
      [200, false],
    ] as const)
      expect(await query(`select generate_series(1, ${count}) as n`)).toMatchObject({
        kind: "rows",
        row_count: 200,
        truncated,
      });
  });

  it("of many bytes is cut off after whole rows", async () => {
    const result = await query(
      "select string_agg('0123456789', '') from generate_series(1, 1000) a, generate_series(1, 50) n group by n",
    );
    expect(result).toMatchObject({ kind: "rows", truncated: true });
    expect(JSON.stringify(result).length).toBeLessThan(256 * 1024 + 1000);
  });

  it("of one row is refused", async () => {
    const texts = Array(24)
      .fill(`string_agg('${"x".repeat(200)}', '')`)
      .join();
    const result = await query(`select ${texts} from (select generate_series(1, 80)) s`);
    expect(result).toMatchObject({ kind: "error", code: "result_too_large" });
  });

  it("is cancelled on the server when the signal aborts", async () => {
    const controller = new AbortController();
    const running = query(endless, controller.signal);
    const active = () =>
      test.db.execute(sql`select pid from pg_stat_activity where application_name = 'svc-server chat' and state = 'active'
        and datname = current_database()`);
    await eventually(async () => expect(await active()).toHaveLength(1));
    controller.abort(new Error("stopped by the person"));
    await expect(running).rejects.toThrow("stopped by the person");
    await eventually(async () => expect(await active()).toHaveLength(0));
  });

  it("does not start when the signal has aborted, or while it waits for others", async () => {
    await expect(query("select 1", AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
    const busy = new AbortController();
    const blocking = [1, 2].map(() => query(endless, busy.signal).catch(() => undefined));
    const waiting = new AbortController();
    const waits = query("select 1", waiting.signal);
    waiting.abort(new Error("gone"));
    await expect(waits).rejects.toThrow("gone");
    busy.abort();
    await Promise.all(blocking);
    expect(await rows("select 1")).toEqual([[1]]);
  });
});

/** The backends that run statements of the tools. */
const backends = async () => {
  const found = await test.db.execute<{ pid: number }>(
    sql`select pid from pg_stat_activity where application_name = 'svc-server chat' and datname = current_database()`,
  );
  return Array.from(found, ({ pid }) => pid);
};

/** Returns the private memory of a process in MiB, and its CPU seconds; zeros when it has ended. */
const usageOf = (pid: number) => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return {
      memory: Number(/RssAnon:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024,
      seconds: parseProcessTimes(stat).ticks / 100,
    };
  } catch {
    return { memory: 0, seconds: 0 };
  }
};

/**
 * Runs a statement for a second at most, or a third of it; returns the most memory of its backend, in MiB, and the CPU seconds that
 * the backend used until it ended.
 */
const measure = async (statement: string) => {
  let isStopped = false;
  const running = query(statement, AbortSignal.timeout(isSlow ? 1_000 : 300))
    .catch(() => null)
    .finally(() => {
      isStopped = true;
    });
  let memory = 0;
  let seconds = 0;
  for (let pids: number[] = []; !isStopped || pids.length > 0; await systemClock.sleep(10)) {
    pids = await backends();
    for (const usage of pids.map(usageOf)) {
      memory = Math.max(memory, usage.memory);
      seconds = Math.max(seconds, usage.seconds);
    }
  }
  return { result: await running, memory, seconds };
};

const times = (count: number, text: string, separator: string) =>
  Array(count).fill(text).join(separator);
/** The longest text and the longest numeric that a statement can make. */
const longText = "(select string_agg('a', '') as x from generate_series(1, 16000)) t";
const longNumeric = `(select n*n*n*n*n as n from (select n*n*n*n*n as n from (select string_agg('9', '')::numeric as n
  from generate_series(1, 16000) limit 1) q limit 1) q limit 1) t`;
const everyPair = "collectors a, collectors b, collectors c, generate_series(1, 1000) g";

describe("T4: one of the worst statements that the tools accept takes little memory and ends when it is cancelled:", () => {
  it.each([
    [
      "aggregates over cross joins",
      `select ${times(20, "string_agg(a.identity || b.identity, '')", ",")} from ${everyPair}`,
    ],
    [
      "arrays over cross joins",
      `select ${times(30, "array_agg(a.identity)", ",")} from ${everyPair}`,
    ],
    [
      "aggregates of groups",
      `select count(*) from (select a.identity, b.identity, g, max(c.identity) from ${everyPair} group by 1, 2, 3) q`,
    ],
    [
      "sorted aggregates",
      `select ${times(8, "count(distinct a.identity || b.identity || g)", ",")} from ${everyPair}`,
    ],
    [
      "windows",
      `select count(*) from (select ${["a", "b", "c"].map((each) => `rank() over (partition by ${each}.state order by a.identity, g)`).join()} from ${everyPair}) q`,
    ],
    ["numerics", `select ${times(3, "length((n / (n - 1))::text)", ",")} from ${longNumeric}`],
    [
      "patterns",
      `select count(*) from ${longText} where x like '%${"a".repeat(180)}b%' or x ~ '((a|aa)*)*${"(a|aa)+".repeat(20)}b'`,
    ],
    [
      "calls",
      `select ${times(24, "x", "||")}, ${times(90, "upper(x) = ''", ",")} from ${longText}`,
    ],
    [
      "joins",
      `select count(*) from ${Array.from({ length: 8 }, (_, at) => `collectors c${at}`).join()} where ${Array.from({ length: 7 }, (_, at) => `c${at}.state = c${at + 1}.state and c${at}.identity = c${at + 1}.identity`).join(" and ")}`,
    ],
    [
      "keys of JSON",
      "select count(*) from collectors a, collectors b, collectors c, jsonb_each_text(c.labels) d",
    ],
    ["rows sorted", `select * from ${everyPair} order by a.identity || b.identity || g`],
    [
      "sets",
      "select a.identity from collectors a, collectors b, collectors c union select device_id from collectors",
    ],
  ])("%s", { timeout: 30_000 }, async (_, statement) => {
    const { result, memory, seconds } = await measure(statement);
    expect(result?.kind === "error" ? result.code : "").not.toBe("statement_refused");
    expect(memory).toBeLessThan(64);
    expect(seconds).toBeLessThan(5);
  });

  it.each([
    "select 1 where 1 not in (select a.queue_bytes + b.queue_bytes from heartbeats a, heartbeats b where a.queue_bytes + 0 = a.queue_bytes)",
    "select count(*) from collectors where identity_id not in (select identity_id from certificates)",
    `select count(*) from collectors c0 ${Array.from({ length: 7 }, (_, at) => `full join collectors c${at + 1} using (policy)`).join(" ")}`,
  ])("refuses a plan that keeps too many rows: %s", async (statement) => {
    expect(await query(statement)).toMatchObject({ code: "statement_refused" });
  });

  it("keeps the slot of a query until its backend has ended", async () => {
    const person = new AbortController();
    // That of the test before may still end.
    await eventually(async () => expect(await backends()).toEqual([]));
    const stopped = [query(endless, person.signal), query(endless, person.signal)].map((each) =>
      each.catch(() => "stopped"),
    );
    await eventually(async () => expect(await backends()).toHaveLength(2));
    const deaf = await backends();
    try {
      for (const pid of deaf) process.kill(pid, "SIGSTOP");
      person.abort(new Error("stopped by the person"));
      expect(await Promise.all(stopped)).toEqual(["stopped", "stopped"]);
      const waiting = new AbortController();
      const next = query("select 1", waiting.signal).catch(() => "waited");
      // The server still has both, so a third one may not start.
      for (let look = 0; look < 20; look++) expect(await backends()).toEqual(deaf);
      waiting.abort();
      expect(await next).toBe("waited");
    } finally {
      for (const pid of deaf) process.kill(pid, "SIGCONT");
    }
    expect(await rows("select 1")).toEqual([[1]]);
    await eventually(async () => expect(await backends()).toEqual([]));
  });
});

describe("describe", () => {
  it("has every column of every relation with its type, and no other", async () => {
    for (const { name } of tools?.relations() ?? []) {
      const description = tools?.describe(name);
      const result = await query(`select * from ${name} limit 0`);
      if (result.kind !== "rows" || description?.kind !== "relation")
        throw new Error(JSON.stringify(result));
      expect(
        description.columns.map((column) => ({ name: column.name, type: column.type })),
      ).toEqual(result.columns);
      for (const { description: words, unit, type } of description.columns) {
        expect(words).toMatch(/^[A-Z].*[.]$/);
        expect(unit !== null).toBe(type === "bigint" || type === "integer");
      }
    }
  });

  it("has the thresholds in force and the precedence of the states", () => {
    const description = tools?.describe("collectors");
    if (description?.kind !== "relation") throw new Error("no relation");
    expect(description.notes).toContain(`Precedence of the states: ${fleetStates.join(", ")}.`);
    expect(description.notes.find((note) => note.startsWith("stale:"))).toContain(
      "no heartbeat for more than 180 s",
    );
    expect(description.notes.find((note) => note.startsWith("unsupported_version:"))).toContain(
      "below 1.0.0",
    );
  });

  it("refuses an unknown name", () => {
    expect(tools?.describe("person")).toMatchObject({ kind: "error", code: "unknown_relation" });
    expect(tools?.describe("fleet")).toMatchObject({ kind: "error", code: "unknown_relation" });
  });
});

it("allows only functions of pg_catalog that are not volatile and run as their caller", async () => {
  const found = await test.db.execute<{ name: string; fault: string | null }>(sql`
    select w.name, case when p.proname is null then 'missing' when p.provolatile = 'v' then 'volatile' when p.prosecdef then 'definer' end as fault
    from unnest(${arrayLiteral([...functions])}::text[]) as w (name)
    left join pg_proc p on p.proname = w.name and p.pronamespace = 'pg_catalog'::regnamespace`);
  const faults = Array.from(found).filter(({ fault }) => fault !== null);
  // TRIM is syntax, and calls btrim.
  expect(faults).toEqual([{ name: "trim", fault: "missing" }]);
});

it("collects with functions of its own in place of all of PostgreSQL's, but for bytea, which no statement can have", async () => {
  const found = await test.db.execute(sql`
    select p.oid::regprocedure::text as name from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace
      and p.proname in ('string_agg', 'array_agg', 'jsonb_each', 'jsonb_each_text', 'jsonb_array_elements', 'jsonb_array_elements_text')
      and not exists (select from pg_proc c where c.pronamespace = 'chat'::regnamespace and c.proname = p.proname
        and c.proargtypes = p.proargtypes)`);
  expect(Array.from(found, ({ name }) => name)).toEqual(["string_agg(bytea,bytea)"]);
});
