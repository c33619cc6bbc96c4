import type { StreamInfo } from "@nats-io/jetstream";
import { beforeAll, beforeEach, expect, it } from "vitest";
import type { ConnectedDatabase } from "#functions/store/database/database.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { storeAccount } from "#tests/support/accounts.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import type { AckedMessages } from "./acked-messages.ts";
import { createLossReports } from "./loss-reports.ts";

const database = await useTestDatabase();
let connection: ConnectedDatabase;
beforeAll(async () => {
  connection = database.connect();
});
beforeEach(async () => {
  await connection.sql`truncate ingest_account, ingest_lost_range`;
});

const stream = "SVC_INGEST 2026-06-01T00:00:00Z";
const info = (lastSequence: number) =>
  ({
    config: { name: "SVC_INGEST" },
    created: "2026-06-01T00:00:00Z",
    state: { last_seq: lastSequence },
  }) as StreamInfo;
/** Stores an account of ten records of a host's only queue, through `lastSequence`. */
const account = (host: string, lastSequence: number, sequence: bigint) =>
  storeAccount(connection.db, host, lastSequence * 3_600_000, {
    lastSequence,
    accepted: 10,
    sink: "nats",
    streamEnd: { stream, sequence },
  });
/** Compares a stream that has queues through 12, of which `differences` are no longer as they were acknowledged. */
const compare = async (
  lastSequence: number,
  { isDoubted = true, differences = [] }: { isDoubted?: boolean; differences?: number[] } = {},
) => {
  const acked: AckedMessages = {
    note: () => undefined,
    findDifferences: async () =>
      differences.map((seq) => ({ seq, lost: undefined, instead: undefined })),
  };
  const reports = createLossReports({
    db: connection.db,
    clock: createTestClock(),
    entropy: systemEntropy,
    log: createTestLog(),
    observe: { gap: () => undefined, implausibleGap: () => undefined },
    acked,
    cursorOf: async () => 12n,
  });
  await reports.compare(info(lastSequence), isDoubted);
  const rows = await connection.sql<{ range: string }[]>`
    select concat_ws(' ', host_id, from_sequence, through_sequence) as range from ingest_lost_range order by host_id`;
  return rows.map(({ range }) => range);
};

it("Q12: takes what a stream has lost that went back off accounts, of hosts that never come back too", async () => {
  await account("a", 10, 4n);
  await account("a", 20, 8n);
  await account("b", 12, 9n);
  await account("c", 30, 7n);
  await account("d", 30, 6n);
  expect(await compare(6, { isDoubted: false })).toEqual([]);
  expect(await compare(6)).toEqual(["a 13 20", "c 21 30"]);
  // Another core finds the same.
  expect(await compare(6)).toEqual(["a 13 20", "c 21 30"]);
});

it("Q12: finds what a stream has lost that has stored others since", async () => {
  await account("a", 20, 8n);
  await account("b", 20, 4n);
  expect(await compare(9, { differences: [7, 6] })).toEqual(["a 13 20"]);
});
