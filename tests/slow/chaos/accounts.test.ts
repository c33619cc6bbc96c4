import { expect, it } from "vitest";
import { encodeAccountBody } from "#collector/queue/seal-accounts.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { type AccountContext, judgeAccounts } from "./accounts.ts";

/* A run that keeps every law of accounts, and what each change of it is found as. */

const hostId = "https://fleet.chaos/d/collector";
const queue = "07".repeat(16);
const bodyOf = (number: number, firstSequence: number, lastSequence: number) =>
  encodeAccountBody(
    {
      fromMs: 0,
      toMs: 1,
      firstSequence,
      lastSequence,
      stopped: false,
      atLeast: false,
      accepted: [
        { kind: "log_line", source: "file", records: lastSequence - firstSequence + 1, bytes: 1 },
      ],
      refused: [],
      expired: 0,
      damaged: 0,
      fileGapBytes: 0,
      waitedMs: 0,
      ackedBeforeThrough: 0,
    },
    {
      hostId,
      queueId: Uint8Array.fromHex(queue),
      number,
      certificateSha256: new Uint8Array(32),
      previousSha256: new Uint8Array(32),
      previousQueueId: new Uint8Array(),
    },
  );
const counts = { isChecked: true, stored: 2, rejected: 0, lost: 0, missing: 0 };
const placesOf = (...sequences: number[]) => ({
  places: new Map(
    sequences.map((sequence) => [`line ${sequence}`, [{ queueId: queue, sequence }]]),
  ),
});

/** Two accounts: of 1 and 2, and of 3 and 4, which a restored database has lost. */
const history = () => ({
  accounts: [
    { ...counts, body: bodyOf(1, 1, 2) },
    { ...counts, body: bodyOf(2, 3, 4), stored: 0, lost: 2 },
  ],
  refused: [] as { refused: string; number: string }[],
  context: {
    stored: placesOf(1, 2),
    discarded: [placesOf(1, 2, 3, 4)],
    collectorHostId: hostId,
    isDamaged: false,
  } satisfies AccountContext as AccountContext,
});
type History = ReturnType<typeof history>;

const judge = ({ accounts, refused, context }: History) => {
  const sql = async (text: TemplateStringsArray) =>
    text.join("").includes("refused is null") ? accounts : refused;
  return judgeAccounts(sql as unknown as SqlClient, context);
};

it("finds no fault in accounts that say what is stored and what is lost", async () => {
  expect(await judge(history())).toEqual({ accounts: 2, accounts_lost: 2, account_faults: [] });
});

it.each<[string, (of: History) => void]>([
  [
    "counts 2 stored, of 1",
    ({ context }) => Object.assign(context, { stored: placesOf(1), discarded: [] }),
  ],
  ["names 2 lost, of 0", ({ context }) => Object.assign(context, { discarded: [] })],
  ["names 0 lost, of 2", ({ accounts }) => Object.assign(accounts[1] ?? {}, { lost: 0 })],
  ["names 1 missing", ({ accounts }) => Object.assign(accounts[0] ?? {}, { missing: 1 })],
  ["2 of the collector's queue 070707 are in no account", ({ accounts }) => void accounts.shift()],
  ["the collector has no account", ({ accounts }) => void accounts.splice(0)],
  [
    "account 3 of the collector is refused: number_used",
    ({ refused }) => void refused.push({ refused: "number_used", number: "3" }),
  ],
])("names it when it %s", async (fault, falsify) => {
  const falsified = history();
  falsify(falsified);
  const { account_faults: faults } = await judge(falsified);
  expect(faults.join("\n")).toContain(fault);
});
