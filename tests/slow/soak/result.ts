import { setTimeout as sleep } from "node:timers/promises";
import { tabulateStored } from "../../../scripts/lab/tabulate-stored.ts";
import type { EmbeddedDatabase } from "../../../scripts/postgres/embedded-database.ts";
import type { Load } from "./load.ts";

/** The stored items, with duplicates. */
export interface Stored {
  lines: number;
  distinctLines: number;
  spans: readonly number[];
}

/** Waits until every line is stored, at most `timeoutMs`; returns what is stored. */
export const readStored = async (sql: EmbeddedDatabase["sql"], load: Load, timeoutMs: number): Promise<Stored> => {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    await tabulateStored(sql);
    const [counted] = await sql<{ lines: number; spans: number }[]>`
      select count(*) filter (where kind = 'log_line')::int as lines, count(*) filter (where kind = 'otel_span')::int as spans
      from stored_envelope`;
    const all = (counted?.lines ?? 0) >= load.lines() && (counted?.spans ?? 0) >= load.accepted.size;
    if (all || performance.now() > deadline) break;
    await sleep(500);
  }
  const [lines] = await sql<{ all: number; distinct: number }[]>`
    select count(*)::int as all, count(distinct payload)::int as distinct from stored_envelope where kind = 'log_line'`;
  const spans = await sql<{ number: number }[]>`
    select substring(convert_from(substring(payload from position('span-'::bytea in payload)), 'utf8') from 'span-([0-9]+)')::int
      as number
    from stored_envelope where kind = 'otel_span'`;
  return { lines: lines?.all ?? 0, distinctLines: lines?.distinct ?? 0, spans: spans.map(({ number }) => number) };
};

/** Most memory of the last runs of the collector, in relation to the first ones. */
const growthMax = 1.25;

/** Compares what was accepted with what is stored, and the memory of early and late runs. */
export const resultOf = (load: Load, stored: Stored, memoryMb: readonly number[]) => {
  const spans = new Set(stored.spans);
  const missing =
    load.lines() - stored.distinctLines + Array.from(load.accepted).filter((span) => !spans.has(span)).length;
  const duplicates = stored.lines - stored.distinctLines + (stored.spans.length - spans.size);
  const third = Math.max(1, Math.floor(memoryMb.length / 3));
  const [early, late] = [median(memoryMb.slice(0, third)), median(memoryMb.slice(-third))];
  const flat = late <= early * growthMax;
  return {
    ok: missing === 0 && duplicates === 0 && flat,
    accepted: load.lines() + load.accepted.size,
    stored: stored.lines + stored.spans.length,
    unanswered_and_stored: Array.from(spans).filter((span) => !load.accepted.has(span)).length,
    missing,
    duplicates,
    memory_mb: { early, late, flat },
  };
};

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
