/**
 * Judges what exports did, from the backend's side. Its laws:
 * 1. What is stored was accepted by the backend, or rejected by it and kept as a dead letter, counted as the host's loss or as a rejected item;
 *    or an exporter has named it as damaged, as the bucket has lost it.
 * 2. The backend receives the envelopes of a queue in their order.
 * 3. An envelope is sent again only for a reason: its answer was lost or late, or another term began; at most four times for late answers.
 * 4. A term sends at most what fits into the buffer of the one before again, unless the database went back.
 * 5. Dead letters and losses are of what the backend rejected, and of nothing else.
 * 6. At rest an export has passed what is stored, no more and no less, and reports no lag.
 * 7. No exporter has more in memory than its limit and a chunk, or than two chunks.
 */

import type { ExportLag } from "#functions/store/export/lag.ts";
import { type DamagedBlock, objectBytes } from "#functions/store/ingest/stored-envelope.ts";
import type { Backend } from "./backend.ts";
import { queueRow } from "./database.ts";
import { chunkBytesOf, type ExportLimits, type SimulatedExporter } from "./exporter.ts";
import type { QueueRange } from "./object-laws.ts";
import type { Breach } from "./oracle.ts";
import type { StoredEnvelope, Tables } from "./tables.ts";

/** What is left of the exports of a history. */
export interface ExportsAfter {
  tables: Tables;
  backend: Backend;
  exporters: readonly SimulatedExporter[];
  limits: ExportLimits;
  lags: readonly ExportLag[];
  /** Whether the database ever went back to an earlier state. */
  hasGoneBack: boolean;
  /** What the bucket has lost, and what exporters have named as damaged. */
  lost: readonly QueueRange[];
  damaged: readonly DamagedBlock[];
}

/** A backend that answers within five minutes has a line at most so often. */
const lateMax = 4;
/** A chunk may be so much larger than its aim; a transaction is read whole. */
const overshoot = 4;

/** Returns the laws that exports broke. */
export const judgeExports = (after: ExportsAfter): Breach[] => [
  ...judgeExported(after),
  ...judgeOrder(after),
  ...judgeRepeats(after.backend),
  ...judgeTerms(after),
  ...judgeLetters(after),
  ...judgeLags(after),
  ...judgeMemory(after),
];

const judgeExported = ({ tables, backend, lost: ranges, damaged }: ExportsAfter): Breach[] => {
  const isLost = ({ hostId, queueHex, sequence }: StoredEnvelope) =>
    ranges.some(
      (lost) =>
        lost.hostId === hostId &&
        lost.queueHex === queueHex &&
        lost.from <= sequence &&
        sequence <= lost.through,
    ) &&
    damaged.some(
      ({ queueId, firstSequence, lastSequence }) =>
        queueId.toHex() === queueHex && firstSequence <= sequence && sequence <= lastSequence,
    );
  const accepted = new Set(backend.accepted.map(({ text }) => text));
  const letters = new Set(tables.deadLetters.map(letterKey));
  const missing = tables.envelopes.filter(
    (envelope) =>
      !accepted.has(envelope.text) &&
      !letters.has(`${queueRow(envelope)}\0${envelope.sequence}`) &&
      !isLost(envelope),
  );
  return [...Map.groupBy(missing, ({ hostId }) => hostId)].flatMap(([hostId, lost]) => {
    const counted = Number(tables.hostLosses.get(`${hostId}\0default`)?.envelopes ?? 0);
    const rejected = lost.filter(({ text }) => backend.rejectedItems.has(text)).length;
    const detail = `${hostId}: ${lost.length}, first ${lost[0]?.text}; ${counted} reported, ${rejected} rejected items`;
    return lost.length <= counted + rejected ? [] : [{ law: "what is stored is exported", detail }];
  });
};

const letterKey = ({ host_id, queue_id, sequence }: Tables["deadLetters"][number]): string =>
  `${host_id}\0${Buffer.from(queue_id as Uint8Array).toString("hex")}\0${sequence}`;

/**
 * A request whose answer nobody received may arrive again once the backend no longer rejects what is in it. A database that goes back may
 * have what was lost in between, and lacks the dead letters since; so does a term that ended before it stored them. Then the order is that
 * of each term.
 */
const judgeOrder = ({
  backend: { accepted, everRejected },
  hasGoneBack,
}: ExportsAfter): Breach[] => {
  const last = new Map<string, number>();
  const seen = new Set<string>();
  for (const record of accepted) {
    const isOfTerm = hasGoneBack || everRejected.has(record.hostId);
    const row = isOfTerm ? `${record.term}\0${queueRow(record)}` : queueRow(record);
    if (seen.has(`${row}\0${record.sequence}`)) continue;
    if (record.answer !== "heard" && everRejected.has(record.hostId)) continue;
    seen.add(`${row}\0${record.sequence}`);
    const before = last.get(row) ?? 0;
    if (record.sequence < before)
      return [
        {
          law: "exported in order",
          detail: `${record.text} at ${record.sequence} behind ${before}`,
        },
      ];
    last.set(row, record.sequence);
  }
  return [];
};

const judgeRepeats = ({ accepted }: Backend): Breach[] => {
  for (const [key, times] of Map.groupBy(
    accepted,
    ({ term, queueHex, text }) => `${term} ${queueHex} ${text}`,
  )) {
    const heard = times.filter(({ answer }) => answer === "heard").length;
    const late = times.filter(({ answer }) => answer === "late").length;
    if (heard > 1 || heard + late > lateMax)
      return [
        {
          law: "sent again only for a reason",
          detail: `${key}: heard ${heard} times, late ${late}`,
        },
      ];
  }
  return [];
};

const judgeTerms = ({ backend, tables, limits, hasGoneBack }: ExportsAfter): Breach[] => {
  if (hasGoneBack) return [];
  const heardIn = new Map<string, string>();
  const repeated = new Map<string, Map<string, number>>();
  for (const { term, queueHex, sequence, text, answer } of backend.accepted) {
    const key = `${queueHex} ${sequence}`;
    const before = heardIn.get(key);
    if (before !== undefined && epochOf(before) < epochOf(term))
      repeated.set(term, (repeated.get(term) ?? new Map()).set(key, text.length + objectBytes));
    else if (answer === "heard" && before === undefined) heardIn.set(key, term);
  }
  const max = bufferedMaxOf({ tables, limits });
  return [...repeated].flatMap(([term, some]) => {
    const bytes = some.values().reduce((sum, length) => sum + length, 0);
    return bytes <= max
      ? []
      : [{ law: "few are sent again", detail: `${term} repeats ${bytes} of at most ${max} bytes` }];
  });
};

const epochOf = (term: string): number => Number(term.slice(term.lastIndexOf(" ")));

/** The most bytes that a chunk can have. */
const chunkMax = ({
  tables: { envelopes },
  limits,
}: Pick<ExportsAfter, "tables" | "limits">): number => {
  const transactions = new Map<number, number>();
  for (const { xid, text } of envelopes)
    transactions.set(xid, (transactions.get(xid) ?? 0) + text.length + objectBytes);
  return Math.max(overshoot * chunkBytesOf(limits), ...transactions.values());
};

/** The most bytes that an exporter may have in memory: one chunk is always read ahead. */
const bufferedMaxOf = (after: Pick<ExportsAfter, "tables" | "limits">): number => {
  const chunk = chunkMax(after);
  return Math.max(after.limits.bufferBytesMax, chunk) + chunk;
};

const judgeLetters = ({ tables, backend }: ExportsAfter): Breach[] => {
  const isRejected = (hostId: unknown) => backend.everRejected.has(String(hostId));
  const wrong = [...tables.deadLetters, ...tables.hostLosses.values()].find(
    ({ host_id }) => !isRejected(host_id),
  );
  return wrong
    ? [
        {
          law: "only what is rejected becomes a dead letter",
          detail: `${wrong.host_id}: ${wrong.reason}`,
        },
      ]
    : [];
};

const judgeLags = ({ tables, lags, exporters }: ExportsAfter): Breach[] => {
  const breaches: Breach[] = [];
  const passed = passedOf(tables);
  const stored = tables.envelopes.length;
  if (passed !== stored)
    breaches.push({ law: "what is stored is passed once", detail: `${passed} of ${stored}` });
  const [lag] = lags;
  const isAlive = exporters.some(({ process }) => process.isAlive);
  if (!lag || lag.envelopes > 0 || lag.unaccounted > 0 || lag.isRunning !== isAlive)
    breaches.push({ law: "an export at rest reports no lag", detail: JSON.stringify(lag ?? null) });
  return breaches;
};

const judgeMemory = ({ exporters, tables, limits }: ExportsAfter): Breach[] => {
  const max = bufferedMaxOf({ tables, limits });
  return exporters.flatMap(({ name, bufferedMax }) =>
    bufferedMax() <= max
      ? []
      : [{ law: "memory is bounded", detail: `${name} had ${bufferedMax()} of ${max} bytes` }],
  );
};

/** Returns how many envelopes the export has passed, and found lost. */
const passedOf = ({ positions }: Tables): number => {
  const { passed = -1, lost = 0 } = positions.get("default") ?? {};
  return Number(passed) + Number(lost);
};

/** Reports whether the backend has what it should, so that the history may end. */
export const areExported = (tables: Tables): boolean =>
  passedOf(tables) === tables.envelopes.length;
