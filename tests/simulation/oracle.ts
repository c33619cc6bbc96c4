/**
 * Judges a history from outside: what sources were promised, and what the database holds. Its laws:
 * 1. What was acknowledged to a source is stored, or lies in a range that core reports as lost.
 * 2. Nothing is stored twice, unless core reports that the queue was copied.
 * 3. The envelopes of a queue are stored in the order of their sequences.
 * 4. Nothing that is stored is reported as lost.
 * 5. Once the last fault is over, every queue becomes empty in time.
 * 6. Then core holds nothing: no bytes, and its sink is healthy.
 */

import type { SimulatedCore } from "./core.ts";
import { queueRow } from "./database.ts";
import type { SimulatedHost } from "./host.ts";
import type { Tables } from "./tables.ts";

/** A law that a history breaks. */
export interface Breach {
  law: string;
  detail: string;
}

/** Keeps what was promised. */
export interface Oracle {
  /** Returns the text of a new record of a machine. */
  produce(machine: string): string;
  /** A source was told that these are stored. */
  acknowledge(hostId: string, texts: readonly string[]): void;
  /** A machine's disk went back to an image of when `acknowledged` was `since`: nobody can hold it to what it acknowledged after that. */
  restored(machine: string, since: number): void;
  acknowledged(): number;
  judge(after: { tables: Tables; hosts: readonly SimulatedHost[]; cores: readonly SimulatedCore[] }): Breach[];
}

/** Makes an oracle. */
export const createOracle = (): Oracle => {
  const produced = new Map<string, number>();
  let promised: { hostId: string; text: string; number: number }[] = [];
  let acknowledged = 0;

  return {
    produce: (machine) => {
      const number = (produced.get(machine) ?? 0) + 1;
      produced.set(machine, number);
      return `${machine} ${number}`;
    },
    acknowledge: (hostId, texts) => promised.push(...texts.map((text) => ({ hostId, text, number: ++acknowledged }))),
    restored: (machine, since) => {
      promised = promised.filter(({ text, number }) => number <= since || !text.startsWith(`${machine} `));
    },
    acknowledged: () => acknowledged,
    judge: ({ tables, hosts, cores }) => [
      ...judgeStored(promised, tables, hosts),
      ...judgeDoubles(tables),
      ...judgeOrder(tables),
      ...judgeReports(tables),
      ...judgeRest(hosts, cores),
    ],
  };
};

const judgeStored = (
  promised: readonly { hostId: string; text: string }[],
  { envelopes, records }: Tables,
  hosts: readonly SimulatedHost[],
): Breach[] => {
  const stored = new Set(envelopes.map(({ text }) => text));
  const missing = promised.filter(({ text }) => !stored.has(text));
  const excused = new Map<string, number>();
  for (const { hostId, action, details } of records)
    if (action === "ingest.gap")
      excused.set(hostId, (excused.get(hostId) ?? 0) + Number(details.through) - Number(details.from) + 1);
  for (const { hostId, disk } of hosts)
    excused.set(hostId, (excused.get(hostId) ?? 0) + (disk.image?.deadLetters.length ?? 0));
  return [...Map.groupBy(missing, ({ hostId }) => hostId)].flatMap(([hostId, lost]) =>
    lost.length <= (excused.get(hostId) ?? 0)
      ? []
      : [
          {
            law: "acknowledged is stored, or reported lost",
            detail: `${hostId} lacks ${lost.length}, first ${lost[0]?.text}; reported ${excused.get(hostId) ?? 0}`,
          },
        ],
  );
};

const judgeDoubles = ({ envelopes, records }: Tables): Breach[] => {
  const copied = new Set(records.flatMap(({ action, hostId }) => (action === "queue.forked" ? [hostId] : [])));
  const seen = new Set<string>();
  const doubles = envelopes.filter(({ hostId, text }) => {
    const isDouble = seen.has(text) && !copied.has(hostId);
    seen.add(text);
    return isDouble;
  });
  return doubles.length === 0
    ? []
    : [{ law: "stored once", detail: `${doubles.length} twice, first ${doubles[0]?.text} at ${doubles[0]?.sequence}` }];
};

const judgeOrder = ({ envelopes }: Tables): Breach[] => {
  const last = new Map<string, number>();
  for (const envelope of envelopes) {
    const row = queueRow(envelope);
    const before = last.get(row) ?? 0;
    if (envelope.sequence <= before)
      return [{ law: "stored in order", detail: `${envelope.text} at ${envelope.sequence} behind ${before}` }];
    last.set(row, envelope.sequence);
  }
  return [];
};

const judgeReports = ({ envelopes, records }: Tables): Breach[] => {
  const stored = new Map<string, Set<number>>();
  for (const envelope of envelopes) {
    const row = queueRow(envelope);
    stored.set(row, (stored.get(row) ?? new Set()).add(envelope.sequence));
  }
  return records.flatMap((record) => {
    if (record.action !== "ingest.gap") return [];
    const held = stored.get(queueRow(record));
    const [from, through] = [Number(record.details.from), Number(record.details.through)];
    for (let sequence = from; sequence <= through; sequence++)
      if (held?.has(sequence))
        return [{ law: "what is stored is not reported lost", detail: `${record.hostId} at ${sequence}` }];
    return [];
  });
};

const judgeRest = (hosts: readonly SimulatedHost[], cores: readonly SimulatedCore[]): Breach[] => [
  ...hosts.flatMap(({ machine, queue, forwarder }) => {
    const { records } = queue.stats();
    const { connected, lastError } = forwarder.status();
    return records === 0
      ? []
      : [
          {
            law: "all goes on after the last fault",
            detail: `${machine} still has ${records}; connected ${connected}, ${lastError}`,
          },
        ];
  }),
  ...cores.flatMap(({ process, ingest }) => {
    const { inFlightBytes } = ingest?.gauges() ?? { inFlightBytes: 0 };
    const { healthy, detail } = ingest?.health() ?? { healthy: false, detail: "has not started" };
    return inFlightBytes === 0 && healthy
      ? []
      : [{ law: "core comes to rest", detail: `${process.name}: ${inFlightBytes} bytes in flight, ${detail}` }];
  }),
];
