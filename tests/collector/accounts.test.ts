import { createHash, createPrivateKey, sign } from "node:crypto";
import { expect, it } from "vitest";
import { hourMs } from "#kit/clock.ts";
import { createTestKey } from "#scripts/lab/ca/test-pki.ts";
import {
  accountingHost,
  appendTexts as append,
  startAccountingHost,
  numberedTexts as texts,
} from "./support/accounting-host.ts";

/* The accounts of a collector's queue against core's real listener and database. */

it("settles an hour as soon as it is over, with the digest of the stored blocks, and the next one behind it", async () => {
  const test = await startAccountingHost({ config: { discardSpanNames: ["health"] } });
  const queue = test.open();
  test.forward(queue);
  for (let batch = 0; batch < 5; batch++) await append(queue, texts(60));
  await append(queue, ["no kind"], "No Kind");
  await test.pass(60, queue);
  await append(queue, texts(3));
  await test.settled(queue);
  await test.pass(60, queue);
  await test.settled(queue);
  const rows = await test.accounts();
  expect(rows).toMatchObject([
    {
      number: 1,
      refused: null,
      is_checked: true,
      accepted: 301,
      stored: 300,
      rejected: 1,
      missing: 0,
      lost: 0,
    },
    {
      number: 2,
      refused: null,
      is_checked: true,
      accepted: 3,
      stored: 3,
      rejected: 0,
      missing: 0,
      lost: 0,
    },
  ]);
  const blocks = await test.connection
    .sql`select digest, first_sequence from ingest_block order by first_sequence`;
  const chain = (digests: readonly Uint8Array[]) =>
    digests.reduce(
      (before, digest) => createHash("sha256").update(before).update(digest).digest(),
      Buffer.alloc(0),
    );
  const ofHour = (isFirst: boolean) =>
    blocks
      .filter(({ first_sequence }) => Number(first_sequence) <= 301 === isFirst)
      .map(({ digest }) => digest);
  expect(rows.map(({ digest }) => digest)).toEqual([
    chain(ofHour(true)).toHex(),
    chain(ofHour(false)).toHex(),
  ]);
  expect(Date.parse(rows[0]?.to_at) % hourMs).toBe(0);
  expect(rows[1]?.from_at).toEqual(rows[0]?.to_at);
});

it("states a stop and the time until the next start, and drops of a full queue", async () => {
  const test = await startAccountingHost();
  const full = test.open({ maxDiskUsageBytes: 5_000, dropNewestOnFull: true });
  await append(full, texts(20));
  await append(full, texts(310));
  await full.close();
  await test.clock.advance(3 * hourMs);
  const queue = test.open();
  test.forward(queue);
  await test.settled(queue);
  expect(await test.accounts()).toMatchObject([
    { number: 1, is_stopped: false, accepted: 20, stored: 20, missing: 0, is_checked: true },
    { number: 2, is_stopped: true, accepted: 0, stored: 0, missing: 0, is_checked: true },
  ]);
});

it("keeps an account by another key as evidence, and goes on with telemetry and later accounts", async () => {
  const test = await startAccountingHost();
  const queue = test.open();
  test.forward(queue);
  const other = createPrivateKey((await createTestKey()).pem);
  await append(queue, texts(10));
  queue.accounts.seal({ ...test.signer, sign: (payload) => sign("sha256", payload, other) });
  await test.pass(60, queue);
  await append(queue, texts(20));
  await test.settled(queue);
  queue.accounts.seal(test.signer);
  await test.pass(60, queue);
  await test.settled(queue);
  const rows = await test.accounts();
  const refused = { number: 1, refused: "signature_invalid", is_linked: false, accepted: 0 };
  expect(rows[0]).toMatchObject(refused);
  expect(rows.at(-1)).toMatchObject({
    number: 2,
    refused: null,
    is_linked: true,
    follows_gap: true,
    accepted: 20,
  });
  await test.drained(queue);
  const [{ stored } = { stored: 0 }] = await test.connection
    .sql`select sum(envelopes)::int as stored from ingest_block`;
  expect(stored).toBe(30);
  const audited = await test.connection
    .sql`select reason_code, details from audit_event where action = 'account.refuse'`;
  expect(audited[0]).toMatchObject({
    reason_code: "signature_invalid",
    details: { host_id: accountingHost, number: "1" },
  });
});

it("names what a restored database lost under the queue's earlier ids, and gives it their accounts again", async () => {
  const test = await startAccountingHost();
  const queue = test.open();
  let stop = test.forward(queue);
  const fork = async () => {
    await stop();
    queue.fork();
    stop = test.forward(queue);
  };
  for (const count of [10, 20]) await test.sendHour(queue, count);
  await fork();
  await test.sendHour(queue, 5);
  await stop();
  // Back to the first hour.
  await test.connection.sql`delete from ingest_account where number > 1 or last_sequence > 10`;
  await test.connection.sql`delete from ingest_block where first_sequence > 10`;
  await test.connection.sql`delete from ingest_cursor where cursor > 30`;
  await test.connection
    .sql`update ingest_cursor set cursor = 10, counted_through = 10, range_stored = 0, range_digest = null`;
  await fork();
  await test.sendHour(queue, 3);
  const rows = (await test.accounts()).toSorted((a, b) => a.from_at - b.from_at);
  expect(rows.map(({ number, refused, follows_gap }) => [number, refused, follows_gap])).toEqual(
    [1, 2, 1, 1].map((number) => [number, null, false]),
  );
  expect(
    rows.map(({ accepted, stored, lost, missing }) => [accepted, stored, lost, missing]),
  ).toEqual([
    [10, 10, 0, 0],
    [20, 0, 20, 0],
    [5, 0, 5, 0],
    [3, 3, 0, 0],
  ]);
});
