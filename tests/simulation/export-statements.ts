/**
 * The statements of an export (functions/store/export/), on the model of the server: it evaluates their own assignments and conditions on
 * the rows of the model, and fails on any other statement.
 */
import { currentTimeline, serverStart } from "#functions/store/database/identity.ts";
import type { DatabaseServer, Transaction } from "./database.ts";
import { createEvaluate, type Scope, splitList, type Values } from "./sql-expressions.ts";
import type { Tables } from "./tables.ts";

/** Executes a statement with its parameters. */
export type ExecuteStatement = (
  open: Transaction,
  text: string,
  params: readonly unknown[],
) => Promise<Values[]>;

/** Names and values of a database that never changes. */
const fixed = { system: "7300000000000000001", oid: "16384" };

/** Parts of statements that stand for one value of the server. */
const constants: readonly (readonly [string, string])[] = [
  [textOf(currentTimeline), "@timeline"],
  [textOf(serverStart), "@started"],
  ["(select oid::text from pg_database where datname = current_database())", "@oid"],
  ["pg_snapshot_xmin(pg_current_snapshot())", "@xmin"],
  ["pg_snapshot_xmax(pg_current_snapshot())", "@xmax"],
  ["(select coalesce(sum(envelopes), 0)::bigint from ingest_stored)", "@stored"],
  ["(select count(*) from export_dead_letter d where d.name = p.name)", "@letters"],
];

/** The oldest position: rows of a dump, which the model does not have, would be below it. */
const oldest =
  /least\(0, \(select min\(xid\) from ingest_block where xid < 0\), \(select min\(xid\) from ingest_envelope where xid < 0\)\)/;
/** What is stored behind a position, as functions/store/export/lag.ts selects it. */
const pendingRows =
  /\(\s*select received_at, envelopes from ingest_block where xid >= (-?\d+) union all select received_at, 1 from ingest_envelope where xid >= -?\d+ limit \S+\) as pending/;

function textOf(part: { queryChunks: readonly unknown[] }): string {
  return part.queryChunks
    .map((chunk) => String((chunk as { value: readonly string[] }).value))
    .join("");
}

/** Creates the function that executes them. */
export const createExportStatements = (server: DatabaseServer): ExecuteStatement => {
  const evaluate = createEvaluate();
  const values: Scope["server"] = {
    now: () => server.now(),
    timeline: () => server.identity.timeline,
    started: () => server.identity.startedAt,
    oid: () => fixed.oid,
    xmin: () => BigInt(server.snapshot().xmin),
    xmax: () => BigInt(server.snapshot().xmax),
    stored: () => BigInt(server.tables.stored),
    letters: (row) =>
      BigInt(server.tables.deadLetters.filter(({ name }) => name === row.name).length),
  };
  const scopeOf = (params: readonly unknown[], row: Values): Scope => ({
    params,
    row,
    server: values,
  });
  const lists = new Map<string, (readonly [string, string])[]>();
  /** Returns the names and expressions of a list. */
  const itemsOf = (list: string, pattern: RegExp): (readonly [string, string])[] => {
    const found = lists.get(list);
    if (found !== undefined) return found;
    const items = splitList(list).map((item) => {
      const { name = item, text = item } = pattern.exec(item)?.groups ?? {};
      return [name, text] as const;
    });
    lists.set(list, items);
    return items;
  };
  const evaluateAll = (list: string, pattern: RegExp, scope: Scope): Values =>
    Object.fromEntries(itemsOf(list, pattern).map(([name, text]) => [name, evaluate(text, scope)]));
  const select = (list: string, scope: Scope): Values =>
    evaluateAll(list, /^(?<text>.*) as (?<name>\w+)$/s, scope);
  const isTrue = (condition: string, scope: Scope): boolean => evaluate(condition, scope) === true;
  const pendingOf = (from: number) => {
    const blocks = server.tables.blocks.filter(({ xid }) => xid >= from);
    return {
      rows: blocks.length,
      count: BigInt(blocks.reduce((sum, { envelopes }) => sum + envelopes, 0)),
    };
  };

  /** Updates the rows of `export_position` for which the condition holds once they are locked. */
  const update = async (
    open: Transaction,
    [set = "", condition = "true", returning = ""]: string[],
    { params, extra }: { params: readonly unknown[]; extra: Values },
  ): Promise<Values[]> => {
    const results: Values[] = [];
    for (const name of server.tables.positions.keys()) {
      const found = () => scopeOf(params, { ...server.tables.positions.get(name), ...extra });
      if (!isTrue(condition, found())) continue;
      await server.lock(open, `export_position\0${name}`);
      const scope = found();
      // As the server: a row that changed while its lock was awaited is evaluated again.
      if (!isTrue(condition, scope)) continue;
      const changes = evaluateAll(set, /^(?<name>\w+) = (?<text>.*)$/s, scope);
      server.write(
        open,
        ({ positions }) => void positions.set(name, { ...positions.get(name), ...changes }),
      );
      results.push(
        returning === "" ? {} : select(returning, scopeOf(params, { ...scope.row, ...changes })),
      );
    }
    return results;
  };

  const insert = (
    open: Transaction,
    [table = "", columns = "", values = ""]: string[],
    params: readonly unknown[],
  ) => {
    const names = splitList(columns).map((name) => name.replaceAll('"', ""));
    for (const row of rowsOf(values)) {
      const scope = scopeOf(params, {});
      const inserted = Object.fromEntries(
        splitList(row).map((text, at) => [names[at] ?? "", evaluate(text, scope)]),
      );
      server.write(open, (tables) => insertRow(tables, table.replaceAll('"', ""), inserted));
    }
    return [];
  };

  const known = new Map<string, string>();
  /** Returns a statement with names for what it asks of the server. */
  const nameConstants = (written: string): string => {
    let text = known.get(written);
    if (text !== undefined) return text;
    text = written.trim().replaceAll(/\s+/g, " ").replace(oldest, "0");
    for (const [part, name] of constants) text = text.replaceAll(part, name);
    // Others name a position, and are not sent again.
    if (!pendingRows.test(text)) known.set(written, text);
    return text;
  };
  return async (open, written, params) => {
    let text = nameConstants(written);
    if (text.startsWith("set local ") || text.includes("brin_summarize_new_values")) return [];
    // The model decides on no hour.
    if (text.startsWith("insert into export_rejection ")) return [];
    const pending = pendingRows.exec(text);
    if (pending && text.startsWith("select rows, count as envelopes,")) {
      const [, missing = "", condition = ""] =
        /\( ?select (.*) from export_position where (.*)\)\) as missing from/.exec(text) ?? [];
      const counted = pendingOf(Number(pending[1]));
      const position = server.tables.positions
        .values()
        .find((row) => isTrue(condition, scopeOf(params, row)));
      const unaccounted =
        position && evaluate(missing, scopeOf(params, { ...position, ...counted }));
      return [
        {
          rows: counted.rows,
          envelopes: counted.count,
          age_seconds: 0,
          missing: Math.max(0, Number(unaccounted ?? 0)),
        },
      ];
    }
    if (pending)
      text = text.replace(/ from \(select count\(\*\) as rows, .*\) as pending where /, " where ");
    const updated = /^update export_position set (.*?) where (.*?)(?: returning (.*))?$/.exec(text);
    if (updated) {
      const counted: Values = pending ? pendingOf(Number(pending[1])) : {};
      const extra = Object.fromEntries(
        Object.entries(counted).map(([name, value]) => [`pending.${name}`, value]),
      );
      return update(open, updated.slice(1), { params, extra });
    }
    const inserted = /^insert into (\S+) \((.*?)\) values (.*?)( on conflict .*)?$/.exec(text);
    if (inserted) return insert(open, inserted.slice(1, 4), params);
    if (text.startsWith('select "host_id", count(*) from "export_dead_letter"')) {
      const letters = Map.groupBy(
        server.tables.deadLetters.filter(({ name }) => name === params[0]),
        ({ host_id }) => String(host_id),
      );
      return [...letters].map(([host_id, own]) => ({ host_id, count: own.length }));
    }
    if (text.startsWith("select count(*) as hosts from ingest_host where last_envelope_at >")) {
      const last = Math.max(...server.tables.hosts.values());
      return [
        { hosts: [...server.tables.hosts.values()].filter((at) => at > last - 86_400_000).length },
      ];
    }
    const selected =
      /^select (.*?)(?: from (export_position(?: p)?|pg_control_system\(\)))?(?: where (.*?))?(?: order by name)?$/.exec(
        text,
      );
    if (selected === null) throw new Error(`the model does not know the statement ${text}`);
    const [, list = "", table, condition = "true"] = selected;
    const control: Values = { system_identifier: fixed.system };
    const rows = table?.startsWith("export_position")
      ? [...server.tables.positions.values()]
      : [control];
    return rows
      .map((row) => scopeOf(params, row))
      .filter((scope) => isTrue(condition, scope))
      .map((scope) => select(list, scope))
      .map(withTimestamps);
  };
};

/** As the driver returns the column that is a timestamp: as a text. */
const withTimestamps = (row: Values): Values =>
  typeof row.stored_by === "number"
    ? { ...row, stored_by: new Date(row.stored_by).toISOString() }
    : row;

/** Splits `(a, b), (c, d)`. */
const rowsOf = (values: string): string[] =>
  splitList(values).map((row) => row.slice(row.indexOf("(") + 1, row.lastIndexOf(")")));

const positionDefaults: Values = {
  stream: null,
  stream_pending: null,
  owner: null,
  stored_before: null,
  system_identifier: null,
  database_oid: null,
  timeline: null,
  last_error: null,
  passed: 0n,
  lost: 0n,
};

const insertRow = (tables: Tables, table: string, row: Values): void => {
  switch (table) {
    case "export_position":
      if (!tables.positions.has(String(row.name)))
        tables.positions.set(String(row.name), { ...positionDefaults, ...row });
      return;
    case "export_dead_letter":
      tables.deadLetters.push(row);
      return;
    case "export_host_loss": {
      const key = `${row.host_id}\0${row.name}`;
      const before = Number(tables.hostLosses.get(key)?.envelopes ?? 0);
      tables.hostLosses.set(key, { ...row, envelopes: before + Number(row.envelopes) });
      return;
    }
    default:
      throw new Error(`the model does not know the table ${table}`);
  }
};
