import { type ReadAccount, readAccount } from "#functions/domain/telemetry/read-account.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import type { StoredQueues } from "./stored-queues.ts";

/** An accepted account, and what core counted of its range. */
interface CountedAccount extends ReadAccount {
  isChecked: boolean;
  stored: number;
  rejected: number;
  lost: number;
  missing: number;
}

type AccountRow = Pick<CountedAccount, "isChecked" | "stored" | "rejected" | "lost" | "missing"> & {
  body: Uint8Array;
};

/** What a run has to compare accounts with. */
export interface AccountContext {
  stored: Pick<StoredQueues, "places">;
  /** What databases had that were replaced by backups. */
  discarded: readonly Pick<StoredQueues, "places">[];
  /** The host whose collector has written its last account. */
  collectorHostId: string;
  /** Its files were damaged: it has several histories, and what it lost is in its own counts. */
  isDamaged: boolean;
}

/**
 * Compares the accounts that core has with what is stored: of each range it counts as stored what is stored, and as lost what a database
 * that was discarded had and no other has; nothing is missing that is not damaged; and every record of the collector is in an account.
 */
export const judgeAccounts = async (sql: SqlClient, context: AccountContext) => {
  const rows = await sql<
    AccountRow[]
  >`select body, is_checked as "isChecked", stored::int, rejected::int, lost::int, missing::int
    from ingest_account where refused is null order by host_id, queue_id, number`;
  const accounts = rows.flatMap(({ body, ...counts }): CountedAccount[] => {
    const read = readAccount(body);
    return read ? [{ ...read, ...counts }] : [];
  });
  const refused = await sql<{ refused: string; number: string }[]>`
    select refused, number::text from ingest_account where refused is not null and host_id = ${context.collectorHostId}`;
  const places = sequencesOf([context.stored]);
  const discarded = sequencesOf(context.discarded);
  return {
    /** Accounts that core accepted. */
    accounts: accounts.length,
    /** Sequences that these name as lost by a database. */
    accounts_lost: accounts.reduce((sum, { lost }) => sum + lost, 0),
    account_faults: [
      ...refused.map(
        ({ refused: reason, number }) => `account ${number} of the collector is refused: ${reason}`,
      ),
      ...accounts.flatMap((account) => faultsOf(account, { places, discarded, context })),
      ...(context.isDamaged ? [] : unaccounted(accounts, places, context.collectorHostId)),
    ],
  };
};

type Sequences = ReadonlyMap<string, ReadonlySet<number>>;

/** Returns the sequences of each queue. */
const sequencesOf = (databases: readonly Pick<StoredQueues, "places">[]): Sequences => {
  const sequences = new Map<string, Set<number>>();
  for (const { places } of databases)
    for (const { queueId, sequence } of [...places.values()].flat())
      sequences.set(queueId, (sequences.get(queueId) ?? new Set()).add(sequence));
  return sequences;
};

const faultsOf = (
  account: CountedAccount,
  {
    places,
    discarded,
    context,
  }: { places: Sequences; discarded: Sequences; context: AccountContext },
) => {
  const queue = account.queueId.toHex();
  const held = places.get(queue) ?? new Set();
  const had = discarded.get(queue) ?? new Set();
  let stored = 0;
  let lost = 0;
  for (
    let at = Number(account.firstSequence) + Number(account.ackedBefore);
    at <= Number(account.lastSequence);
    at++
  ) {
    if (held.has(at)) stored += 1;
    else if (had.has(at)) lost += 1;
  }
  const { hostId, number, firstSequence, lastSequence, isChecked, missing } = account;
  const name = `${hostId}: account ${number} of ${queue.slice(0, 6)}, ${firstSequence}..${lastSequence}`;
  const isOfCollector = hostId === context.collectorHostId && !context.isDamaged;
  return [
    ...(isChecked && account.stored !== stored
      ? [`${name} counts ${account.stored} stored, of ${stored}`]
      : []),
    ...(isOfCollector && account.lost !== lost
      ? [`${name} names ${account.lost} lost, of ${lost}`]
      : []),
    ...(isOfCollector && missing > 0 ? [`${name} names ${missing} missing`] : []),
  ];
};

/** Says which sequences of the collector's queues are stored, and in no account. */
const unaccounted = (accounts: readonly CountedAccount[], places: Sequences, hostId: string) => {
  const own = accounts.filter((account) => account.hostId === hostId);
  if (own.length === 0) return ["the collector has no account"];
  return own
    .map(({ queueId }) => queueId.toHex())
    .filter((queue, at, all) => all.indexOf(queue) === at)
    .flatMap((queue) => {
      const ranges = own.filter(({ queueId }) => queueId.toHex() === queue);
      const isAccounted = (sequence: number) =>
        ranges.some((range) => range.firstSequence <= sequence && sequence <= range.lastSequence);
      const rest = [...(places.get(queue) ?? [])].filter((sequence) => !isAccounted(sequence));
      return rest.length === 0
        ? []
        : [`${rest.length} of the collector's queue ${queue.slice(0, 6)} are in no account`];
    });
};
