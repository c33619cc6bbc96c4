/**
 * Judges a history from outside: what sources were promised, and what the database holds. Its laws:
 * 1. What was acknowledged to a source is stored, or lies in a range that core reports as lost: where it was stored in a database that
 *    went back, in a range that has one of its places. Nobody can know of a record whose place another one has: of a copy, once the
 *    database has gone back; or of before, once the disk and the database have, and the database then once more, to a backup of before. Nor
 *    of one that only a database or a stream which went back and a damaged disk knew.
 *    What the damage of a host's files took is within what its queue counts as lost.
 * 2. Nothing is stored twice, unless core reports that the queue was copied.
 * 3. The envelopes of a queue are stored in the order of their sequences.
 * 4. Nothing that is stored is reported as lost, and nothing at all unless the servers went back; nor is a place of a queue id that the queue
 *    used under another one, as long as it has one history. Of a place that two copies of a queue have
 *    used, one record may be stored and the other one lost; and what one reports, the other may send again. So may a disk that goes back twice:
 *    it may then have what it did not have in between.
 * 5. Once the last fault is over, every queue becomes empty in time.
 * 6. Then core holds nothing: no bytes, and its sink is healthy.
 * 7. A queue is reported as copied only if its machine was copied, a call repeated, or its disk or the database restored.
 * 8. A dead letter is counted once.
 */

import type { SimulatedCore } from "./core.ts";
import { queueRow } from "./database.ts";
import type { SimulatedHost } from "./host.ts";
import type { EnvelopeKey, QueueRecord, StoredEnvelope, Tables } from "./tables.ts";

/** A law that a history breaks. */
export interface Breach {
  law: string;
  detail: string;
}

/** The laws by name. */
export const laws = {
  stored: "acknowledged is stored, or reported lost",
  once: "stored once",
  inOrder: "stored in order",
  noFalseLoss: "what is stored is not reported lost",
  goesOn: "all goes on after the last fault",
  rests: "core comes to rest",
  noFalseCopy: "a copy is reported only where there is one",
  countsOnce: "a dead letter is counted once",
} as const;

/** Keeps what was promised. */
export interface Oracle {
  /** Returns the text of a new record of a machine. */
  produce(machine: string): string;
  /** A source was told that these are stored. */
  acknowledge(hostId: string, texts: readonly string[]): void;
  /** A machine's disk went back to an image of when `acknowledged` was `since`: nobody can hold it to what it acknowledged after that. */
  restored(machine: string, since: number): void;
  /** A host's queue exists twice or went back, or a call of it is repeated: core may report a copy. */
  copied(hostId: string): void;
  /** How often that was called of a host. */
  copiesOf(hostId: string): number;
  acknowledged(): number;
  judge(after: {
    tables: Tables;
    /** What was stored in databases that have gone back since. */
    discarded: readonly StoredEnvelope[];
    hosts: readonly SimulatedHost[];
    cores: readonly SimulatedCore[];
    /** The machines whose last record, offered when all was well, is not stored. */
    stuck: ReadonlySet<string>;
    /** Whether the servers of core lost nothing that they had stored. */
    isIntact: boolean;
    /** How often the database was restored, or a standby that lagged promoted. */
    restores: number;
    /** Hosts that may send no more. */
    revoked: ReadonlyMap<string, unknown>;
  }): Breach[];
}

/** Creates an oracle. */
export const createOracle = (): Oracle => {
  const produced = new Map<string, number>();
  let promised: { hostId: string; text: string; number: number }[] = [];
  let acknowledged = 0;
  const copies = new Map<string, number>();

  return {
    produce: (machine) => {
      const number = (produced.get(machine) ?? 0) + 1;
      produced.set(machine, number);
      return `${machine} ${number}`;
    },
    acknowledge: (hostId, texts) =>
      promised.push(...texts.map((text) => ({ hostId, text, number: ++acknowledged }))),
    restored: (machine, since) => {
      promised = promised.filter(
        ({ text, number }) => number <= since || !text.startsWith(`${machine} `),
      );
    },
    copied: (hostId) => void copies.set(hostId, (copies.get(hostId) ?? 0) + 1),
    copiesOf: (hostId) => copies.get(hostId) ?? 0,
    acknowledged: () => acknowledged,
    judge: ({ tables, discarded, hosts, cores, stuck, isIntact, restores, revoked }) => [
      ...judgeStored({
        promised: promised.filter(({ hostId }) => !revoked.has(hostId)),
        tables,
        discarded,
        hosts,
        restores,
      }),
      // A database that goes back may take the report of a copy with it.
      ...judgeDoubles(tables, restores > 0 ? copies.keys() : []),
      ...judgeOrder(tables),
      ...judgeReports({ tables, discarded, hosts, isIntact }),
      ...judgeCopies(tables, copies),
      ...judgeDeadLetters(hosts),
      ...judgeRest(
        hosts.filter(({ hostId }) => !revoked.has(hostId)),
        cores,
      ),
      ...[...stuck].map((machine) => ({ law: laws.goesOn, detail: `${machine} stores no record` })),
    ],
  };
};

const judgeStored = ({
  promised,
  tables: { envelopes, records },
  discarded,
  hosts,
  restores,
}: {
  promised: readonly { hostId: string; text: string }[];
  tables: Tables;
  discarded: readonly StoredEnvelope[];
  hosts: readonly SimulatedHost[];
  restores: number;
}): Breach[] => {
  const isReplaced = findReplaced({ tables: { envelopes }, discarded, hosts, restores });
  const stored = new Set(envelopes.map(({ text }) => text));
  const places = Map.groupBy(discarded, ({ text }) => text);
  const reported = new Map<string, Set<string>>();
  for (const record of records) {
    if (record.action !== "ingest.gap") continue;
    const ofHost = reported.get(record.hostId) ?? new Set();
    reported.set(record.hostId, ofHost);
    const from = Number(record.details.from);
    const through = Number(record.details.through);
    for (let sequence = from; sequence <= through; sequence++)
      ofHost.add(placeOf(record, sequence));
  }
  const damaged = new Set(hosts.filter(({ disk }) => disk.damages > 0).map(({ hostId }) => hostId));
  /** Reports whether only a database or a stream that went back and a damaged disk knew of it. */
  const isLostWithBoth = ({ hostId, text }: { hostId: string; text: string }) =>
    damaged.has(hostId) && places.has(text);
  /** Reports whether other files are damaged too, and the mark that says what they had is gone. */
  const hasNoMark = ({ hostId }: { hostId: string }) =>
    hosts.some(({ hostId: of, disk }) => of === hostId && disk.lacksMark);
  const current = new Set(hosts.map(({ disk }) => disk.image?.state.queueId.toHex()));
  /** Reports whether its host had left the queue, and had said what the first backup lacked: of the second, it says nothing. */
  const isSaid = ({ text }: { text: string }) =>
    restores > 1 && places.get(text)?.every(({ queueHex }) => !current.has(queueHex)) === true;
  const excuses = [isReplaced, isLostWithBoth, hasNoMark, isSaid];
  const missing = promised.filter(
    (record) => !stored.has(record.text) && !excuses.some((isExcused) => isExcused(record)),
  );
  return [...Map.groupBy(missing, ({ hostId }) => hostId)].flatMap(([hostId, lost]) => {
    const ofHost = reported.get(hostId) ?? new Set();
    const reportedPlace = ({ text }: { text: string }) =>
      places
        .get(text)
        ?.map((place) => placeOf(place, place.sequence))
        .find((place) => ofHost.has(place));
    const unreported = lost.filter(
      (record) => places.has(record.text) && reportedPlace(record) === undefined,
    );
    const used = new Set(lost.map(reportedPlace).filter((place) => place !== undefined));
    // What was never stored was rejected, or its sequence lies in a range.
    const letters = hosts.reduce(
      (sum, host) =>
        sum + (host.hostId === hostId ? (host.disk.image?.deadLetters.length ?? 0) : 0),
      0,
    );
    // What damage took is counted by the queue.
    const counted = hosts.reduce(
      (sum, { hostId: of, disk, queue }) =>
        sum + (of === hostId && disk.damages > 0 ? queue.stats().droppedRecordsTotal : 0),
      0,
    );
    const isExcused =
      lost.filter(({ text }) => !places.has(text)).length <=
      ofHost.size - used.size + letters + counted;
    const [first] = unreported.length > 0 ? unreported : lost;
    return unreported.length === 0 && isExcused
      ? []
      : [
          {
            law: laws.stored,
            detail: `${hostId} lacks ${lost.length}, first ${first?.text}; reported ${ofHost.size}, and not ${unreported.length} of them`,
          },
        ];
  });
};

/**
 * Returns what reports whether another record has the place of one: of a copy, or of before. That is in a backup, or in an object: then no
 * database may have had the one of now, whose host knows its place. Core may have rejected the one of before.
 */
export const findReplaced = ({
  tables: { envelopes },
  discarded,
  hosts,
  restores,
}: Pick<Parameters<typeof judgeStored>[0], "discarded" | "hosts" | "restores"> & {
  tables: Pick<Tables, "envelopes">;
}) => {
  const taken = new Set(envelopes.map((envelope) => placeOf(envelope, envelope.sequence)));
  const places = Map.groupBy(discarded, ({ text }) => text);
  const rejected = new Set(
    hosts.flatMap(({ hostId, disk }) =>
      disk.ledger.letters.map(({ sequence }) => `${hostId} ${sequence}`),
    ),
  );
  const isTaken = (place: EnvelopeKey) =>
    taken.has(placeOf(place, place.sequence)) || rejected.has(`${place.hostId} ${place.sequence}`);
  return ({ hostId, text }: { hostId: string; text: string }): boolean => {
    const known = places.get(text) ?? [];
    if (isCopied(hosts, hostId)) return restores > 0 && known.some(isTaken);
    return hosts.some(({ hostId: of, disk }) => {
      if (of !== hostId || disk.restores === 0 || restores < 2) return false;
      if (known.some(isTaken)) return true;
      const { image, ledger } = disk;
      const sequence = ledger.written.get(text)?.sequence ?? 0;
      const [[first] = [text]] = [...ledger.written].filter(([, at]) => at.sequence === sequence);
      const own = { hostId, queueHex: image?.state.queueId.toHex() ?? "", sequence };
      return first !== text && isTaken(own);
    });
  };
};

/** Reports whether two machines have copies of one queue. */
export const isCopied = (hosts: readonly SimulatedHost[], hostId: string): boolean => {
  const own = hosts.filter((host) => host.hostId === hostId);
  return new Set(own.map(({ disk }) => disk.ledger)).size < own.length;
};

type EnvelopeQueue = Parameters<typeof queueRow>[0];
const placeOf = (queue: EnvelopeQueue, sequence: number): string =>
  `${queueRow(queue)} ${sequence}`;

const judgeDoubles = ({ envelopes, records }: Tables, excused: Iterable<string>): Breach[] => {
  const reported = records.flatMap(({ action, hostId }) =>
    action === "queue.forked" ? [hostId] : [],
  );
  const copied = new Set([...reported, ...excused]);
  const seen = new Set<string>();
  const doubles = envelopes.filter(({ hostId, text }) => {
    const isDouble = seen.has(text) && !copied.has(hostId);
    seen.add(text);
    return isDouble;
  });
  return doubles.length === 0
    ? []
    : [
        {
          law: laws.once,
          detail: `${doubles.length} twice, first ${doubles[0]?.text} at ${doubles[0]?.sequence}`,
        },
      ];
};

const judgeOrder = ({ envelopes }: Tables): Breach[] => {
  const last = new Map<string, number>();
  for (const envelope of envelopes) {
    const row = queueRow(envelope);
    const before = last.get(row) ?? 0;
    if (envelope.sequence <= before)
      return [
        { law: laws.inOrder, detail: `${envelope.text} at ${envelope.sequence} behind ${before}` },
      ];
    last.set(row, envelope.sequence);
  }
  return [];
};

const judgeReports = ({
  tables: { envelopes, records },
  discarded,
  hosts,
  isIntact,
}: {
  tables: Tables;
  discarded: readonly StoredEnvelope[];
  hosts: readonly SimulatedHost[];
  isIntact: boolean;
}): Breach[] => {
  const gaps = records.filter(({ action }) => action === "ingest.gap");
  if (gaps.length === 0) return [];
  const texts = new Set(envelopes.map(({ text }) => text));
  const backTwice = new Set(
    hosts.filter(({ disk }) => disk.restores > 1).map(({ hostId }) => hostId),
  );
  // Each copy of a queue reports what was lost of it, and one of them may have had it still.
  const isLost = ({ hostId, text }: StoredEnvelope) =>
    !texts.has(text) || isCopied(hosts, hostId) || backTwice.has(hostId);
  const gone = discarded.filter(isLost);
  const lost = new Set(gone.map((envelope) => placeOf(envelope, envelope.sequence)));
  const stored = new Set(envelopes.map((envelope) => placeOf(envelope, envelope.sequence)));
  const ever = [...envelopes, ...discarded];
  const used = new Set(ever.map((envelope) => placeOf(envelope, envelope.sequence)));
  const ledgerOf = (queueHex: string) =>
    hosts.findIndex(({ disk }) => disk.ledger.queues.has(queueHex));
  const usedByHost = new Set(
    ever.map(({ queueHex, sequence }) => `${ledgerOf(queueHex)} ${sequence}`),
  );
  // Two machines may have one identity, and only one of them a disk that went back.
  const single = new Set(
    hosts
      .filter(({ hostId, disk }) => disk.restores === 0 && !isCopied(hosts, hostId))
      .flatMap(({ disk }) => [...disk.ledger.queues]),
  );
  /** Reports whether a queue of one history stored the sequence under another id only. */
  const isElsewhere = (record: QueueRecord, sequence: number) =>
    single.has(record.queueHex) &&
    !used.has(placeOf(record, sequence)) &&
    usedByHost.has(`${ledgerOf(record.queueHex)} ${sequence}`);
  return gaps.flatMap((record) => {
    if (isIntact)
      return [{ law: laws.noFalseLoss, detail: `${record.hostId}: the servers lost nothing` }];
    const from = Number(record.details.from);
    const through = Number(record.details.through);
    for (let sequence = from; sequence <= through; sequence++)
      if (
        (stored.has(placeOf(record, sequence)) && !lost.has(placeOf(record, sequence))) ||
        isElsewhere(record, sequence)
      )
        return [{ law: laws.noFalseLoss, detail: `${record.hostId} at ${sequence}` }];
    return [];
  });
};

const judgeCopies = ({ records }: Tables, copies: ReadonlyMap<string, unknown>): Breach[] =>
  records.flatMap(({ action, hostId }) =>
    action === "queue.forked" && !copies.has(hostId)
      ? [{ law: laws.noFalseCopy, detail: `${hostId} was not copied` }]
      : [],
  );

const judgeDeadLetters = (hosts: readonly SimulatedHost[]): Breach[] =>
  hosts.flatMap(({ machine, disk: { image, damages } }) => {
    if (damages > 0) return [];
    const held = new Set(
      image?.deadLetters.map(({ queueId, sequence }) => `${queueId} ${sequence}`),
    ).size;
    const counted = image?.state.deadLetters ?? 0;
    return held === counted
      ? []
      : [
          {
            law: laws.countsOnce,
            detail: `${machine} counts ${counted} dead letters and has ${held}`,
          },
        ];
  });

const judgeRest = (hosts: readonly SimulatedHost[], cores: readonly SimulatedCore[]): Breach[] => [
  ...hosts.flatMap(({ machine, queue, forwarder }) => {
    const { records } = queue.stats();
    const { connected, lastError } = forwarder.status();
    return records === 0
      ? []
      : [
          {
            law: laws.goesOn,
            detail: `${machine} still has ${records}; connected ${connected}, ${lastError}`,
          },
        ];
  }),
  ...cores.flatMap(({ process, ingest }) => {
    const { inFlightBytes } = ingest?.gauges() ?? { inFlightBytes: 0 };
    const { healthy, detail } = ingest?.health() ?? { healthy: false, detail: "has not started" };
    return inFlightBytes === 0 && healthy
      ? []
      : [
          {
            law: laws.rests,
            detail: `${process.name}: ${inFlightBytes} bytes in flight, ${detail}`,
          },
        ];
  }),
];
