/**
 * Judges what core has of the accounts of hosts, once these have written their last ones. Its laws:
 * 1. Every record that a host's queue ever stored is in one account, of the hour in which it was stored. One that is stored again under the next
 *    id of the queue, whose host had learned neither of the record nor of its account, is in the account of each id.
 * 2. Of an account's range core counts as stored what it has stored.
 * 3. What of a range is not stored is named: as lost by the database, as rejected by core, or as missing since the queue gave it up. Of an
 *    account that core could not check, that does not hold for what was acknowledged under an earlier id of the queue.
 * 4. No loss is named that did not happen: neither by core nor by the host, of what its sources could not store. A record that core stored under
 *    two ids of a queue, since the host had not learned of the first, is lost with the second.
 * 5. Core refuses no account.
 * 6. Core has every account.
 * 7. An account commits behind its range: an export that has passed it has delivered what it speaks of.
 * 8. What accounts state that was accepted is counted by source, once.
 * 9. Core has counted what an account speaks of, unless a server went back, or an older core stored, or some was acknowledged before a fork of
 *    a queue with two histories: core cannot tell of which one is what it rejected.
 * 10. The queue of a host that sends is open, also one that was closed.
 *
 * Of a host whose disk went back, which was copied or revoked, nobody knows which of its accounts arrive; of it, laws 2 and 6 to 10 hold.
 */
import type { ReadAccount } from "#functions/domain/telemetry/read-account.ts";
import { equalBytes } from "#kit/bytes.ts";
import { hourMs } from "#kit/clock.ts";
import { accountOf, type CoreAccount } from "./core-accounts.ts";
import type { SimulatedHost } from "./host.ts";
import { type Breach, isCopied } from "./oracle.ts";
import { emptyPast, type PastRecord } from "./queue-past.ts";
import type { StoredEnvelope, Tables } from "./tables.ts";

/** The laws by name. */
export const accountLaws = {
  accounted: "every record is in one account of its host and hour",
  hasStored: "an account has what core stored of its range",
  named: "every loss is named in the account of its host and hour",
  noFalseLoss: "an account names no loss that did not happen",
  accepted: "no account is refused",
  arrives: "core has every account",
  isBehind: "an account is behind its telemetry",
  bySource: "what accounts state is counted by source once",
  counted: "what an account speaks of is counted",
  isOpen: "a queue that sends is open",
} as const;

/** What is left of a history whose cores take accounts. */
export interface AccountsAfter {
  tables: Tables;
  hosts: readonly SimulatedHost[];
  /** Hosts that may send no more. */
  revoked: ReadonlyMap<string, unknown>;
  /** Whether a server went back. */
  isBack: boolean;
  /** Whether an older core stored, which counts nothing. */
  isUncounted: boolean;
}

/** Returns the laws that accounts broke. */
export const judgeAccounts = (history: AccountsAfter): Breach[] => {
  const { tables, hosts, revoked, isBack, isUncounted } = history;
  const stored = storedPlaces(tables.envelopes);
  const accounts = tables.accounts.map(accountOf);
  const served = hosts.filter(({ hostId }) => !revoked.has(hostId));
  // Two machines may have one identity, and only one of them a disk that went back.
  const single = new Set(
    hosts.filter(isSingle(hosts)).flatMap(({ disk }) => [...disk.ledger.queues]),
  );
  const isOfFork = ({ queueId, ackedBefore }: CoreAccount) =>
    ackedBefore > 0n && !single.has(queueId.toHex());
  return [
    ...served.flatMap(judgeArrival),
    ...served.flatMap((host) => judgeOpen(host, tables)),
    ...(isBack || isUncounted
      ? []
      : accounts.filter((account) => !isOfFork(account)).flatMap(judgeCounted)),
    ...accounts
      .filter(({ refused }) => refused === null)
      .flatMap((account) => judgeRange(account, stored)),
    ...judgeVolumes(accounts, tables),
    ...served.filter(isSingle(hosts)).flatMap((host) => {
      const own = accounts.filter(({ queueId }) => host.disk.ledger.queues.has(queueId.toHex()));
      const accepted = own.filter(({ refused }) => refused === null);
      const ofHost = { host, accounts: accepted, stored, tables, isBack };
      const counted = {
        ...ofHost,
        accounts: accepted.filter(({ isChecked }) => isChecked || !isUncounted),
      };
      return [
        ...judgeRefusals(own),
        ...judgeRecords(ofHost),
        ...judgeLosses(counted),
        ...judgeDrops(ofHost),
      ];
    }),
  ];
};

/** The transactions of stored envelopes, by queue and sequence. */
type Stored = ReadonlyMap<string, ReadonlyMap<number, number>>;

const storedPlaces = (envelopes: readonly StoredEnvelope[]): Stored => {
  const places = new Map<string, Map<number, number>>();
  for (const { hostId, queueHex, sequence, xid } of envelopes) {
    const queue = `${hostId}\0${queueHex}`;
    places.set(queue, (places.get(queue) ?? new Map()).set(sequence, xid));
  }
  return places;
};

const placesOf = (stored: Stored, { hostId, queueId }: Pick<ReadAccount, "hostId" | "queueId">) =>
  stored.get(`${hostId}\0${queueId.toHex()}`) ?? new Map<number, number>();

/** Reports whether the queue of a host has one history. */
const isSingle =
  (hosts: readonly SimulatedHost[]) =>
  ({ hostId, disk }: SimulatedHost): boolean =>
    disk.restores === 0 && !isCopied(hosts, hostId);

const nameOf = ({ hostId, queueId, number, firstSequence, lastSequence }: ReadAccount): string =>
  `${hostId}: account ${number} of queue ${queueId.toHex().slice(0, 6)}, ${firstSequence}..${lastSequence}`;

const breach = (law: keyof typeof accountLaws, detail: string): Breach => ({
  law: accountLaws[law],
  detail,
});

const judgeArrival = ({ machine, queue }: SimulatedHost): Breach[] => {
  const pending = queue.accounts.pendingThrough();
  return pending === undefined
    ? []
    : [breach("arrives", `${machine} still has one through ${pending}`)];
};

const judgeOpen = (
  { hostId, machine, disk: { image } }: SimulatedHost,
  { queues }: Tables,
): Breach[] => {
  const queue = image && queues.get(`${hostId}\0${image.state.queueId.toHex()}`);
  return queue && queue.endedAt !== null
    ? [breach("isOpen", `that of ${machine} is ${queue.ending}`)]
    : [];
};

const judgeCounted = (account: CoreAccount): Breach[] =>
  account.refused === null && !account.isChecked && account.accepted > 0
    ? [breach("counted", `${nameOf(account)} is not`)]
    : [];

const judgeRange = (account: CoreAccount, stored: Stored): Breach[] => {
  const within = [...placesOf(stored, account)].filter(([sequence]) => contains(account, sequence));
  const { counts, isChecked, place } = account;
  const ahead = within.find(([, at]) => at >= place);
  return [
    ...(isChecked && counts.stored !== within.length
      ? [breach("hasStored", `${nameOf(account)}: counts ${counts.stored} of ${within.length}`)]
      : []),
    ...(ahead
      ? [breach("isBehind", `${nameOf(account)} is ${place}, and ${ahead[0]} is ${ahead[1]}`)]
      : []),
  ];
};

const judgeVolumes = (accounts: readonly CoreAccount[], { volumes }: Tables): Breach[] => {
  const accepted = accounts.filter(({ refused }) => refused === null);
  return [...Map.groupBy(accepted, ({ hostId }) => hostId)].flatMap(([hostId, own]) => {
    const stated = own.reduce((sum, account) => sum + Number(account.accepted), 0);
    const counted = [...volumes.values()].reduce(
      (sum, { hostId: of, envelopes }) => sum + (of === hostId ? envelopes : 0),
      0,
    );
    return counted === stated
      ? []
      : [breach("bySource", `${hostId}: counts ${counted} of ${stated}`)];
  });
};

const contains = ({ firstSequence, lastSequence }: ReadAccount, sequence: number): boolean =>
  firstSequence <= sequence && sequence <= lastSequence;

const judgeRefusals = (accounts: readonly CoreAccount[]): Breach[] =>
  accounts.flatMap((account) =>
    account.refused === null ? [] : [breach("accepted", `${nameOf(account)}: ${account.refused}`)],
  );

/** What is known of a host with one history; `accounts` are those that core accepted. */
interface HostHistory {
  host: SimulatedHost;
  accounts: readonly CoreAccount[];
  stored: Stored;
  tables: Tables;
  isBack: boolean;
}

const pastOf = ({ disk: { image } }: SimulatedHost) => image?.past ?? emptyPast;
const hourOf = (ms: number): number => Math.floor(ms / hourMs);

const judgeRecords = ({ host, accounts, stored }: HostHistory): Breach[] => {
  for (const { sequence, wallMs, text } of pastOf(host).records) {
    const having = accounts.filter((account) => contains(account, sequence));
    const own = having.filter(({ fromMs }) => hourOf(fromMs) === hourOf(wallMs));
    // An account whose answer was lost is sent again by a forked queue, which says that it was acknowledged before, or sends the record again.
    const isAgain = (account: CoreAccount) =>
      isBefore(account, sequence) ||
      (placesOf(stored, account).has(sequence) &&
        own.slice(0, own.indexOf(account)).some((before) => isSame(before, account)));
    const [first, second] = own.filter((account) => !isAgain(account));
    if (own.length > 0 && second === undefined && own.length === having.length) continue;
    const at = new Date(wallMs).toISOString();
    const which = second ?? having.find((account) => !own.includes(account)) ?? first;
    return [breach("accounted", `${text} of ${at} is in ${which ? nameOf(which) : "none"}`)];
  }
  return [];
};

/** Reports whether two accounts state the same of two ids of a queue. */
const isSame = (one: CoreAccount, other: CoreAccount): boolean =>
  one.fromMs === other.fromMs &&
  one.toMs === other.toMs &&
  one.firstSequence === other.firstSequence &&
  one.lastSequence === other.lastSequence &&
  !equalBytes(one.queueId, other.queueId);

/** Reports whether an account says that a sequence was acknowledged under an earlier id of the queue. */
const isBefore = ({ firstSequence, ackedBefore }: ReadAccount, sequence: number): boolean =>
  BigInt(sequence) < firstSequence + ackedBefore;

const judgeLosses = ({ host, accounts, stored, tables, isBack }: HostHistory): Breach[] => {
  const { hostId, disk } = host;
  const { records, queues } = pastOf(host);
  const letters = new Map(disk.image?.deadLetters.map(({ sequence, code }) => [sequence, code]));
  const isStored = ({ sequence }: PastRecord) =>
    queues.some((queue) => stored.get(`${hostId}\0${queue}`)?.has(sequence));
  const isReported = (sequence: number): boolean =>
    tables.records.some(
      ({ action, hostId: of, details: { from, through } }) =>
        action === "ingest.gap" &&
        of === hostId &&
        Number(from) <= sequence &&
        sequence <= Number(through),
    );
  // A queue that takes another id states again, as acknowledged before, what an account of the former id has stated.
  const isStatedBefore = (account: CoreAccount, sequence: number): boolean =>
    isBefore(account, sequence) &&
    accounts.some((other) => contains(other, sequence) && !isBefore(other, sequence));
  return accounts.flatMap((account) => {
    const gone = records.filter(
      ({ sequence, ...record }) =>
        contains(account, sequence) &&
        !isStatedBefore(account, sequence) &&
        !isStored({ sequence, ...record }),
    );
    const codes = gone.map(({ sequence }) => letters.get(sequence));
    const own = gone.filter(({ sequence }) => givenUp.has(letters.get(sequence) ?? ""));
    const given = own.length;
    // A range that a server has lost includes what the queue had given up of it.
    const counted = own.filter(({ sequence }) => isReported(sequence)).length;
    // A server that goes back forgets what it rejected, and the host does not send that again.
    const forgotten = isBack
      ? codes.length - codes.filter((code) => code === undefined).length - given
      : 0;
    const lost = codes.filter((code) => code === undefined).length;
    // A host states once what a restore took of a queue that it had left. A second restore may take that report back (oracle.ts).
    const isLeft = disk.image?.state.queueId.toHex() !== account.queueId.toHex();
    const isUnsaid = ({ sequence }: PastRecord) => !letters.has(sequence) && !isReported(sequence);
    const unsaid = isBack && isLeft ? gone.filter(isUnsaid).length : 0;
    // Core cannot tell what an earlier id rejected from what the queue had given up there. Their hour is then not accounted.
    const isKnown = (record: PastRecord) =>
      account.isChecked || !isBefore(account, record.sequence);
    const known = gone.filter(isKnown).length;
    const givenKnown = own.filter(isKnown).length;
    const { counts } = account;
    const named = counts.rejected + counts.lost + counts.missing;
    // A range that a database has lost includes what core had rejected of it, and what an earlier id of the queue still has.
    const again = records.filter(
      (record) =>
        contains(account, record.sequence) &&
        !isBefore(account, record.sequence) &&
        isReported(record.sequence) &&
        isStored(record) &&
        !placesOf(stored, account).has(record.sequence),
    );
    const isNamed = named >= known && named <= gone.length + again.length;
    // Of one that is not checked, what core has rejected since may stand for that.
    const since = account.isChecked ? 0 : counts.rejected;
    const isMissing =
      counts.missing >= givenKnown - counted - since &&
      counts.missing <= given + forgotten + unsaid;
    const isRight = counts.lost >= lost - unsaid && isMissing && isNamed;
    if (isRight) return [];
    const law =
      named > gone.length + again.length || counts.missing > given + forgotten + unsaid
        ? "noFalseLoss"
        : "named";
    const detail = `${JSON.stringify(counts)}, ${gone.length} are gone: ${lost} lost, ${given} given up`;
    return [breach(law, `${nameOf(account)}${account.isChecked ? "" : ", unchecked"}: ${detail}`)];
  });
};

/** Why a queue gives a record up by itself. */
const givenUp: ReadonlySet<string> = new Set(["damaged", "frame_too_large"]);

const judgeDrops = ({ host, accounts }: HostHistory): Breach[] => {
  const named = accounts.reduce((sum, { dropped }) => sum + dropped, 0);
  const { dropped, forgotten } = host.refusals();
  if (named === dropped || (named < dropped && forgotten > 0)) return [];
  const law = named > dropped ? "noFalseLoss" : "named";
  return [
    breach(law, `${host.machine}: ${named} could not be stored, and ${dropped} were dropped`),
  ];
};
