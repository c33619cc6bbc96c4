import { fromBinary } from "@bufbuild/protobuf";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { beaconSource } from "../fleet-sim/drive/wire.ts";
import { idOfLine } from "../lab/line-writer.ts";
import { tabulateStored } from "../lab/tabulate-stored.ts";
import { spanIdAttribute } from "./send-spans.ts";

/** How much of the input is in PostgreSQL, by content: ids of spans and lines, not sequences or envelopes. */
export interface ContentCount {
  sent: number;
  /** Spans and lines in the database, each copy counted. */
  stored: number;
  /** Copies beyond the first of an id. */
  duplicates: number;
  /** Ids that were sent and not stored. */
  missing: number;
  /** Spans and lines whose id was never sent. */
  foreign: number;
}

/** Parses every stored payload, except those of simulated hosts, and compares its ids with those that were sent. */
export const countContent = async (
  sql: SqlClient,
  sent: ReadonlySet<string>,
): Promise<ContentCount> => {
  const copies = new Map<string, number>();
  let stored = 0;
  let foreign = 0;
  await tabulateStored(sql);
  const rows = await sql<{ kind: string; payload: Uint8Array }[]>`
    select kind, payload from stored_envelope where kind in ('otel_span', 'log_line') and source <> ${beaconSource}`;
  for (const { kind, payload } of rows)
    for (const id of kind === "otel_span"
      ? idsOfSpans(payload)
      : [idOfLine(new TextDecoder().decode(payload))]) {
      stored++;
      if (id === undefined || !sent.has(id)) foreign++;
      else copies.set(id, (copies.get(id) ?? 0) + 1);
    }
  return {
    sent: sent.size,
    stored,
    duplicates: copies.values().reduce((sum, count) => sum + count - 1, 0),
    missing: sent.size - copies.size,
    foreign,
  };
};

const idsOfSpans = (payload: Uint8Array): (string | undefined)[] =>
  fromBinary(ExportTraceServiceRequestSchema, payload).resourceSpans.flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ attributes }) => {
        const value = attributes.find(({ key }) => key === spanIdAttribute)?.value?.value;
        return value?.case === "stringValue" ? value.value : undefined;
      }),
    ),
  );
