/**
 * Judges the hours of hosts by what the world knows of each record that a host ever wrote: it is stored, or named with a reason, or nobody
 * knows. Its laws, of every host, also of one that is copied, revoked, or has lost its queue:
 * 1. An hour of which core states that all is stored lacks no record that the host wrote in it, nor one that a source could not store.
 * 2. It has counted every record of the hour as accepted, and each of these as stored, discarded, or acknowledged before a fork.
 * 3. An hour that lacks records counts as incomplete, unless a server went back, or an older core stored: nobody knows what it had counted.
 * 4. Where each shortage of an hour has a count, the counts have every record that it lacks.
 * 5. No account has more records as missing than are.
 * 6. A record is stored once under each id of a queue, and under no more ids than the queue has had copies.
 *
 * Nobody can know of what a queue had that core never opened, nor that a disk went back of which core has received nothing newer, nor the
 * hours of a clock that jumped before the queue was lost or damaged, nor those behind the close of a queue that says nothing more, nor what
 * damage took together with the mark that says how much that is.
 */
import type { ReadAccount } from "#functions/domain/telemetry/read-account.ts";
import { hourMs } from "#kit/clock.ts";
import { type HourFacts, stateOfHour } from "#proto/completeness/decide-hour.ts";
import { clockSkewMs, sumHour } from "#proto/completeness/hour-accounts.ts";
import { anyQueue, incompleteStates, type QueueFacts } from "#proto/completeness/hour-state.ts";
import { accountOf, type CoreAccount } from "./core-accounts.ts";
import type { SimulatedHost } from "./host.ts";
import type { Breach } from "./oracle.ts";
import { isTold, type Ledger } from "./queue-past.ts";
import { endQueueRow, type Tables } from "./tables.ts";

/** The laws by name. */
export const hourLaws = {
  isShort: "no hour is complete that lacks a record",
  counts: "a complete hour counts every record",
  isStored: "a complete hour has stored what it counts",
  isIncomplete: "an hour that lacks records is incomplete",
  addsUp: "the shortages of an hour have every record that it lacks",
  noFalseMissing: "what is stored is not missing from an account",
  storesOnce: "a record is stored once for each copy of its queue",
} as const;

/** What is left of a history. */
export interface HoursAfter {
  tables: Tables;
  hosts: readonly SimulatedHost[];
  /** When hosts were revoked. */
  revoked: ReadonlyMap<string, number>;
  /** Whether a server went back. */
  isBack: boolean;
  /** Whether an older core stored, which counts nothing. */
  isUncounted: boolean;
  /** How often a host's queue may have been copied, or gone back. */
  copiesOf(hostId: string): number;
  /** Reports whether another record has the place of one (`findReplaced`). */
  isReplaced(record: { hostId: string; text: string }): boolean;
}

/** Changes what decides on an hour: a planted fault. */
export type HourFault = (facts: HourFacts) => HourFacts;

const breach = (law: keyof typeof hourLaws, detail: string): Breach => ({
  law: hourLaws[law],
  detail,
});
const hourOf = (ms: number): number => Math.floor(ms / hourMs) * hourMs;

/** Returns the laws that the hours of hosts broke. */
export const judgeHours = (after: HoursAfter, fault: HourFault = (facts) => facts): Breach[] => {
  const { tables, hosts, revoked } = after;
  // As core does before it settles an hour.
  for (const [hostId, endedAt] of revoked)
    for (const row of tables.queues.keys())
      if (row.startsWith(`${hostId}\0`)) endQueueRow(tables, row, { endedAt, ending: "revoked" });
  const copies = new Map<string, number>();
  for (const { text } of tables.envelopes) copies.set(text, (copies.get(text) ?? 0) + 1);
  const accounts = tables.accounts.map(accountOf);
  return [...Map.groupBy(hosts, ({ hostId }) => hostId)].flatMap(([hostId, machines]) => {
    const own = accounts.filter((account) => account.hostId === hostId);
    const ledgers = [...new Set(machines.map(({ disk }) => disk.ledger))];
    const host = { hostId, machines, ledgers, accounts: own, copies };
    const hours = new Set(ledgers.flatMap(hoursOf));
    return [
      ...[...hours].flatMap((hour) => judgeHour(hour, host, after, fault)),
      ...judgeMissing(host),
      ...judgeDoubles(host, after),
    ];
  });
};

interface HostHours {
  hostId: string;
  machines: readonly SimulatedHost[];
  ledgers: readonly Ledger[];
  accounts: readonly CoreAccount[];
  /** How often each record is stored, by its text. */
  copies: ReadonlyMap<string, number>;
}

/** Returns the hours in which records were written, or dropped. */
const hoursOf = ({ written, dropped }: Ledger): number[] =>
  [...[...written.values()].map(({ wallMs }) => wallMs), ...dropped].map(hourOf);

const judgeHour = (
  hour: number,
  host: HostHours,
  after: HoursAfter,
  fault: HourFault,
): Breach[] => {
  const facts = fault(factsOf(hour, host, after));
  const status = stateOfHour(facts, Number.POSITIVE_INFINITY);
  // A host has no hours once it is revoked.
  if (status === null) return [];
  const { state, shortages } = status;
  const written = host.ledgers.flatMap((ledger) =>
    [...ledger.written]
      .slice(0, ledger.valid)
      .flatMap(([text, { wallMs }]) => (hourOf(wallMs) === hour ? [{ text, ledger }] : [])),
  );
  const known = written.filter((record) => isKnown(record, host, after));
  const lacking = known.filter(
    ({ text }) => !host.copies.has(text) && !after.isReplaced({ hostId: host.hostId, text }),
  );
  const at = `${host.hostId} at ${new Date(hour).toISOString()} is ${state}`;
  const isComplete = state === "complete" || state === "undelivered";
  const dropped = host.ledgers.flatMap((ledger) =>
    ledger.dropped.filter((ms) => hourOf(ms) === hour),
  );
  const { accepted, stored, discarded } = facts.accounts;
  const ackedBefore = ownAccounts(hour, host).reduce(
    (sum, account) => sum + Number(account.ackedBefore),
    0,
  );
  const named = shortages.reduce(
    (sum, { kind, count }) => (isOfRecords(kind) ? sum + (count ?? Infinity) : sum),
    0,
  );
  const isVague = shortages.some(({ count }) => count === null);
  return [
    ...(isComplete && lacking.length > 0
      ? [breach("isShort", `${at}, and lacks ${lacking.length}, first ${lacking[0]?.text}`)]
      : []),
    ...(isComplete && dropped.length > 0
      ? [breach("isShort", `${at}, and ${dropped.length} times it lost before it could store`)]
      : []),
    ...(isComplete && accepted < known.length
      ? [breach("counts", `${at}, counts ${accepted} of ${known.length}`)]
      : []),
    ...(isComplete && stored + discarded + ackedBefore < accepted
      ? [
          breach(
            "isStored",
            `${at}, and has stored ${stored} of ${accepted}, ${ackedBefore} before`,
          ),
        ]
      : []),
    ...(lacking.length > 0 &&
    !isComplete &&
    !incompleteStates.includes(state) &&
    !after.isBack &&
    !after.isUncounted
      ? [breach("isIncomplete", `${at}, and lacks ${lacking.length}, first ${lacking[0]?.text}`)]
      : []),
    ...(state === "short" && !isVague && named < lacking.length
      ? [
          breach(
            "addsUp",
            `${at} of ${named}, and lacks ${lacking.length}, first ${lacking[0]?.text}`,
          ),
        ]
      : []),
  ];
};

const ownAccounts = (hour: number, { accounts }: HostHours): CoreAccount[] =>
  accounts.filter(({ fromMs, refused }) => refused === null && hourOf(fromMs) === hour);

const isOfRecords = (kind: string): boolean =>
  ["rejected", "lost_in_restore", "missing"].includes(kind);

/** Reports whether core can know of a record. */
const isKnown = (
  { text, ledger }: { text: string; ledger: Ledger },
  { hostId, machines }: HostHours,
  { tables: { heard, queues }, revoked }: HoursAfter,
): boolean => {
  const { sequence = 0, wallMs = 0 } = ledger.written.get(text) ?? {};
  const hour = hourOf(wallMs);
  /** Reports whether an admin had closed a queue, which has not sent since. */
  const isClosed = (queueHex: string) => {
    const { ending, endedAt } = queues.get(`${hostId}\0${queueHex}`) ?? {};
    return ending === "closed" && (endedAt ?? 0) <= hour;
  };
  const lost = ledger.lost.get(text);
  if (lost) return !isClosed(lost.queueHex) && isTold(lost, heard.get(lost.queueHex));
  if (ledger.lost.has(text)) return false;
  const isSent = !revoked.has(hostId);
  return machines.some(({ heard: answered, disk: { image, shared } }) => {
    const queueHex = image?.state.queueId.toHex() ?? "";
    /** Nor of what it has of an open queue since it was copied, if it has not come since. */
    const hasCome = () =>
      shared?.queueHex !== queueHex ||
      sequence <= shared.through ||
      isTold({ ...shared, at: Number.POSITIVE_INFINITY }, answered);
    // A machine that may send no more says nothing of a queue that it has not opened.
    const canTell =
      isSent || (image?.past.records.some((record) => record.text === text) === true && hasCome());
    return heard.has(queueHex) && !isClosed(queueHex) && (isSent || !ledger.hasJumped) && canTell;
  });
};

/** Returns what decides on an hour, as core finds it (functions/store/completeness/hour-facts.ts). */
const factsOf = (
  hour: number,
  { hostId, accounts }: HostHours,
  { tables, revoked }: HoursAfter,
): HourFacts => {
  const accepted = accounts.filter(({ refused }) => refused === null);
  const queues = [...tables.queues].flatMap(
    ([row, { firstSeenAt, endedAt, ending, sendsAccounts }]): QueueFacts[] => {
      const [host, queueId = ""] = row.split("\0");
      if (host !== hostId) return [];
      const own = accepted
        .filter((account) => account.queueId.toHex() === queueId)
        .toSorted(byNumber);
      const newest = own.filter(isNotAhead).at(-1);
      return [
        {
          queueId,
          endMs: endedAt,
          ending,
          sendsAccounts,
          fromMs: own[0]?.fromMs ?? firstSeenAt,
          accountedThroughMs: newest?.facts.toMs ?? null,
        },
      ];
    },
  );
  const [first] = accepted;
  if (queues.length === 0 && first)
    queues.push(anyQueue(first.fromMs, Math.max(...accepted.map(({ facts }) => facts.toMs))));
  const revokedMs = revoked.get(hostId) ?? null;
  const sums = sumHour(
    hour,
    accounts.map(({ facts }) => facts),
  );
  return {
    hourStartMs: hour,
    accounts: sums,
    queues,
    revokedMs,
    enrolledMs: null,
    isSilent: true,
    outages: [],
    exports: [],
  };
};

const byNumber = (one: ReadAccount, other: ReadAccount): number =>
  Number(one.number - other.number);
const isNotAhead = ({ facts: { toMs, receivedMs } }: CoreAccount): boolean =>
  toMs <= receivedMs + clockSkewMs;

const judgeMissing = ({ hostId, machines, accounts, ledgers, copies }: HostHours): Breach[] =>
  // Damage takes back what a queue knew of its records.
  machines.some(({ disk }) => disk.damages > 0)
    ? []
    : accounts.flatMap(({ queueId, refused, counts, firstSequence, lastSequence, number }) => {
        const ledger = ledgers.find(({ queues }) => queues.has(queueId.toHex()));
        if (refused !== null || ledger === undefined || counts.missing === 0) return [];
        const isOwn = (sequence: number) => firstSequence <= sequence && sequence <= lastSequence;
        const gone = [...ledger.written].filter(
          ([text, { sequence }]) => isOwn(sequence) && !copies.has(text),
        );
        const name = `${hostId}: account ${number} of queue ${queueId.toHex().slice(0, 6)}`;
        return counts.missing <= new Set(gone.map(([, { sequence }]) => sequence)).size
          ? []
          : [
              breach(
                "noFalseMissing",
                `${name} lacks ${counts.missing}, and ${gone.length} are gone`,
              ),
            ];
      });

const judgeDoubles = (
  { hostId, copies }: HostHours,
  { tables: { envelopes }, copiesOf }: HoursAfter,
): Breach[] => {
  const own = envelopes.filter((envelope) => envelope.hostId === hostId);
  const most = 1 + copiesOf(hostId);
  const places = new Set(own.map(({ queueHex, text }) => `${queueHex} ${text}`));
  const often = own.find(({ text }) => (copies.get(text) ?? 0) > most);
  return [
    ...(places.size < own.length
      ? [breach("storesOnce", `${hostId} has one twice under one id`)]
      : []),
    ...(often
      ? [
          breach(
            "storesOnce",
            `${often.text} is stored ${copies.get(often.text)} times, of ${most} queues`,
          ),
        ]
      : []),
  ];
};
