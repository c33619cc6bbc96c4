import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { auditEvent } from "#drizzle/schema/audit.ts";
import { bootstrapToken, enrollmentReservation } from "#drizzle/schema/enrollment.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { anyOf, asDate, insertRows, orNull, readRows } from "./statements.ts";

const database = await useTestDatabase();
const { db } = database.connect();

/** Texts that a naive array literal or JSON would damage. */
const awkward = ['a"b', "a\\b", "a,b", "{a}", "a'b", " a ", "NULL", "", "a\nb", "ü€😀"];

it("store every type of value exactly, and find rows by awkward values", async () => {
  const rows = awkward.map((text, index) => ({
    id: `01920000-0000-7000-8000-00000000000${index}`,
    occurredAt: new Date(1_780_315_200_123 + index),
    actorType: "system" as const,
    actorId: text,
    actorDisplay: text,
    action: "a.b",
    targetType: "t",
    targetId: text,
    outcome: "success" as const,
    reasonCode: null,
    reason: text,
    remoteAddr: null,
    requestId: null,
    details: { text, list: [1, null, { deep: text }] },
  }));
  await insertRows(db, auditEvent, rows);
  expect(await db.select().from(auditEvent).orderBy(auditEvent.id)).toEqual(rows);
  const found = await db
    .select()
    .from(auditEvent)
    .where(anyOf(auditEvent.targetId, awkward))
    .orderBy(auditEvent.id);
  expect(found.map(({ targetId }) => targetId)).toEqual(awkward);
  expect(await db.select().from(auditEvent).where(anyOf(auditEvent.targetId, []))).toEqual([]);
});

it("store bytes exactly, and reject a duplicate without a conflict clause", async () => {
  const core = await useTestCore();
  await createTestToken(core);
  const [token] = await core.db.select().from(bootstrapToken);
  if (token === undefined) throw new Error("no token");
  const row = {
    id: token.id,
    policyId: token.policyId,
    tokenId: token.id,
    identity: "x://y",
    spkiSha256: Uint8Array.from({ length: 256 }, (_, byte) => byte),
    firstEnrollment: true,
    serialNumber: "0a",
    expiresAt: new Date(0),
  };
  await insertRows(core.db, enrollmentReservation, [row]);
  const stored = await core.db.select().from(enrollmentReservation);
  expect(stored).toMatchObject([{ ...row, spkiSha256: expect.anything() }]);
  expect(stored[0]?.spkiSha256.toHex()).toBe(row.spkiSha256.toHex());
  const keys = anyOf(enrollmentReservation.spkiSha256, [Uint8Array.of(1), row.spkiSha256]);
  expect(await core.db.select().from(enrollmentReservation).where(keys)).toHaveLength(1);
  await expect(insertRows(core.db, enrollmentReservation, [row])).rejects.toThrow();
});

it("read rows by their columns, exactly and with nulls", async () => {
  const at = new Date(1_780_315_200_123);
  const columns = { hostId: String, last: BigInt, at: Date.parse, seenAt: orNull(asDate) };
  const read = readRows(
    db,
    columns,
    sql`select host_id, last, at, seen_at from (values
      ('a', 9007199254740993::bigint, ${at.toISOString()}::timestamptz, null),
      ('b', -1, to_timestamp(0), ${at.toISOString()}::timestamptz)) read (host_id, last, at, seen_at)`,
  );
  await expect(read).resolves.toEqual([
    { hostId: "a", last: 9007199254740993n, at: at.getTime(), seenAt: null },
    { hostId: "b", last: -1n, at: 0, seenAt: at },
  ]);
});

it("rejects a statement without one of the columns", async () => {
  await expect(
    readRows(db, { found: Number, missing: Number }, sql`select 1 as found`),
  ).rejects.toThrow("the statement returned no column missing");
});
