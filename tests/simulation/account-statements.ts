/**
 * The statements with which core decides on accounts (functions/store/ingest/accounts.ts), on the model of the server: their own conditions
 * and assignments are evaluated on the rows of the model. Fails on any other statement.
 */
import { type DatabaseServer, queueRow, type Transaction } from "./database.ts";
import type { ExecuteStatement } from "./export-statements.ts";
import { createQueueStatements } from "./queue-statements.ts";
import {
  createEvaluate,
  type Scope,
  splitList,
  type Value,
  type Values,
} from "./sql-expressions.ts";
import type { CursorRow } from "./tables.ts";

const selectPattern =
  /^select (.+?) from "(ingest_cursor|ingest_account)" where (.+?)(?: order by (\S+) desc)?(?: limit (\$\d+))?( for no key update)?$/;
const insertPattern = /^insert into "ingest_account" \((.+?)\) values \((.+)\)$/;
const updatePattern = /^update "ingest_cursor" set (.+?) where (.+)$/;
const lostRanges =
  "select details->>'from' as from, details->>'through' as through from audit_event where action = 'ingest.gap' and actor_display = $1 and details->>'queue_id' = any($2::text[])";
const findEnding = "select ending from ingest_queue where host_id = $1 and queue_id = $2";
const storedWithin =
  "select coalesce(sum(envelopes), 0) as stored from ingest_block where host_id = $1 and queue_id = $2 and first_sequence >= $3::bigint and last_sequence <= $4::bigint";
const lostOfTime =
  "select coalesce(sum(lost), 0) as lost from ingest_account where host_id = $1 and queue_id = any($2::bytea[]) and from_at = $3::timestamptz and to_at = $4::timestamptz and last_sequence = $5::bigint and accepted = $6::bigint";

const addSourceVolumes =
  "insert into volume_source as v (host_id, day, kind, source, envelopes, payload_bytes) select $1, $2::int, kind, source, least(sum(records), 9007199254740991), least(sum(bytes), 9007199254740991) from jsonb_to_recordset($3::jsonb) as counted (kind text, source text, records numeric, bytes numeric) group by kind, source order by kind, source on conflict (host_id, day, kind, source) do update set envelopes = least(v.envelopes + excluded.envelopes, 9007199254740991), payload_bytes = least(v.payload_bytes + excluded.payload_bytes, 9007199254740991)";

/** Creates the function that executes them. */
export const createAccountStatements = (server: DatabaseServer): ExecuteStatement => {
  const executeOther = createQueueStatements(server);
  const evaluate = createEvaluate();

  const select = async (
    open: Transaction,
    found: RegExpExecArray,
    params: readonly unknown[],
  ): Promise<Values[]> => {
    const [, list = "", table, condition = "", order, limit, isLocking] = found;
    const scopeOf = (row: Values): Scope => ({ params, row, server: {} });
    const rows = () => (table === "ingest_cursor" ? cursorsOf(server) : server.tables.accounts);
    const matching = () => rows().filter((row) => evaluate(condition, scopeOf(row)) === true);
    if (isLocking) for (const row of matching()) await server.lock(open, rowName(row));
    let selected = matching();
    if (order) {
      const keyOf = (row: Values) => Number(evaluate(order, scopeOf(row)));
      selected = selected.toSorted((one, other) => keyOf(other) - keyOf(one));
    }
    if (limit) selected = selected.slice(0, Number(evaluate(limit, scopeOf({}))));
    return selected.map((row) =>
      Object.fromEntries(splitList(list).map((column) => [column, evaluate(column, scopeOf(row))])),
    );
  };

  return async (open, written, params) => {
    const text = written.trim().replaceAll(/\s+/g, " ");
    if (text === "set local lock_timeout = '1s'") {
      open.lockTimeoutMs = 1_000;
      return [];
    }
    // No host of a simulation is enrolled.
    if (/^select .* from "certificate" inner join/.test(text)) return [];
    if (text === lostRanges)
      return server.tables.records
        .filter(
          ({ action, hostId, queueHex }) =>
            action === "ingest.gap" && hostId === params[0] && String(params[1]).includes(queueHex),
        )
        .map(({ details }) => ({ from: String(details.from), through: String(details.through) }));
    if (text === storedWithin) {
      const [hostId, queueId, first, last] = params;
      const within = server.tables.envelopes.filter(
        (envelope) =>
          envelope.hostId === hostId &&
          envelope.queueHex === (queueId as Uint8Array).toHex() &&
          Number(first) <= envelope.sequence &&
          envelope.sequence <= Number(last),
      );
      return [{ stored: String(within.length) }];
    }
    if (text === lostOfTime) {
      const [hostId, queueIds, from, to, last, accepted] = params.map(String);
      const same = server.tables.accounts.filter(
        (row) =>
          row.host_id === hostId &&
          queueIds?.includes((row.queue_id as Uint8Array).toHex()) &&
          String(row.from_at) === from &&
          String(row.to_at) === to &&
          String(row.last_sequence) === last &&
          String(row.accepted) === accepted,
      );
      return [{ lost: String(same.reduce((sum, row) => sum + Number(row.lost), 0)) }];
    }
    if (text === "select kind, source from volume_source where host_id = $1 and day = $2::int")
      return [...server.tables.volumes.keys()]
        .map((name) => name.split("\0"))
        .filter(([hostId, day]) => hostId === params[0] && day === String(params[1]))
        .map(([, , kind = "", source = ""]) => ({ kind, source }));
    if (text === addSourceVolumes) {
      const [hostId, day, rows] = params;
      const counts = JSON.parse(String(rows)) as Record<
        "kind" | "source" | "records" | "bytes",
        string
      >[];
      server.write(open, ({ volumes }) => {
        for (const { kind, source, records, bytes } of counts) {
          const name = [hostId, day, kind, source].join("\0");
          const { envelopes = 0, payloadBytes = 0 } = volumes.get(name) ?? {};
          const sums = {
            envelopes: envelopes + Number(records),
            payloadBytes: payloadBytes + Number(bytes),
          };
          volumes.set(name, { hostId: String(hostId), ...sums });
        }
      });
      return [];
    }
    if (text === findEnding)
      return [{ ending: server.tables.queues.get(queueOf(params))?.ending ?? null }];
    const selected = selectPattern.exec(text);
    // The sink of a stream reads a cursor alone.
    if (selected && selected[1] !== '"cursor"') return select(open, selected, params);
    const inserted = insertPattern.exec(text);
    if (inserted) {
      const [, columns = "", values = ""] = inserted;
      server.write(open, () => undefined);
      const scope: Scope = {
        params,
        row: {},
        server: { xid: () => BigInt((!server.fault.forgetsAccountXid && open.xid) || 0) },
      };
      const named = values.replace("pg_current_xact_id()", "@xid");
      const names = splitList(columns).map((name) => name.replaceAll('"', ""));
      const row = Object.fromEntries(
        splitList(named).map((value, at) => [names[at] ?? "", evaluate(value, scope)]),
      );
      server.write(open, ({ accounts }) => accounts.push(row));
      return [];
    }
    const [, set = "", condition = ""] = updatePattern.exec(text) ?? [];
    if (set === "") return executeOther(open, written, params);
    if (server.fault.keepsRanges) return [];
    for (const row of cursorsOf(server)) {
      const scope: Scope = { params, row, server: {} };
      if (evaluate(condition, scope) !== true) continue;
      const changes = splitList(set).map((assignment): [string, Value] => {
        const at = assignment.indexOf(" = ");
        return [assignment.slice(1, at - 1), evaluate(assignment.slice(at + 3), scope)];
      });
      server.write(open, ({ cursors }) => {
        const changed = cursors.get(rowName(row));
        if (changed) Object.assign(changed, fieldsOf(Object.fromEntries(changes)));
      });
    }
    return [];
  };
};

const queueOf = ([hostId, queueId]: readonly unknown[]): string =>
  queueRow({ hostId: String(hostId), queueHex: (queueId as Uint8Array).toHex() });

const rowName = ({ host_id, queue_id }: Values): string =>
  queueRow({ hostId: String(host_id), queueHex: (queue_id as Uint8Array).toHex() });

/** Returns the rows of `ingest_cursor` by the names of its columns. */
const cursorsOf = ({ tables }: DatabaseServer): Values[] =>
  [...tables.cursors].map(([name, row]) => {
    const [host_id = "", queue = ""] = name.split("\0");
    return {
      host_id,
      queue_id: Uint8Array.fromHex(queue),
      cursor: BigInt(row.cursor),
      session_id: row.session === "" ? null : Uint8Array.fromHex(row.session),
      updated_at: new Date(row.updatedAt).toISOString(),
      range_stored: BigInt(row.rangeStored),
      range_rejected: BigInt(row.rangeRejected),
      range_discarded: BigInt(row.rangeDiscarded),
      range_lost: BigInt(row.rangeLost),
      range_digest: row.rangeDigest,
      counted_through: row.countedThrough === null ? null : BigInt(row.countedThrough),
    };
  });

const countFields = {
  range_stored: "rangeStored",
  range_rejected: "rangeRejected",
  range_discarded: "rangeDiscarded",
  range_lost: "rangeLost",
  counted_through: "countedThrough",
} as const satisfies Record<string, keyof CursorRow>;

/** Returns what an update of `ingest_cursor` changes; fails for a column that the model does not have. */
const fieldsOf = (changes: Values): Partial<CursorRow> =>
  Object.fromEntries(
    Object.entries(changes).map(([name, value]) => {
      if (name === "range_digest") return ["rangeDigest", value];
      const field = countFields[name as keyof typeof countFields];
      if (field === undefined) throw new Error(`the model does not know the column ${name}`);
      return [field, value === null ? null : Number(value)];
    }),
  );
