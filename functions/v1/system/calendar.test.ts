import { sql } from "drizzle-orm";
import { beforeEach, describe, expect, it } from "vitest";
import { createCoreReporter } from "#functions/ops/report-core.ts";
import { findPasswordEnd, type ReportedCredential } from "#functions/store/system/system.ts";
import { dayMs } from "#kit/clock.ts";
import type { SystemCalendar } from "#proto/system/calendar.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock, core, db } = test;

const reportAs = (machine: string, ...credentials: ReportedCredential[]) =>
  createCoreReporter(core, {
    machine,
    version: "1.2.3",
    checks: {},
    credentials: () => credentials,
    streams: () => null,
    clockAheadMs: () => 0,
    isStopping: () => false,
  }).report();

const inDays = (days: number) => clock.iso(days * dayMs);
const certificateOf = (subject: string, days: number) => ({ subject, endsAt: inDays(days) });
const bundle = (name: string, ...parts: ReportedCredential["parts"]): ReportedCredential => ({
  name,
  endsAt: parts.at(-1)?.endsAt ?? null,
  parts,
  changedAt: null,
});
const chain = (...parts: ReportedCredential["parts"]): ReportedCredential => ({
  ...bundle("ingest_server", ...parts),
  endsAt: parts[0]?.endsAt ?? null,
});

const read = async () => (await test.auditor.read<SystemCalendar>("/v1/system/calendar")).items;
const linesOf = async (name: string) =>
  (await read())
    .filter((line) => line.name === name)
    .map(({ subject, of, ends_at: end, state }) => [subject, of.join(), end, state]);

beforeEach(async () => {
  await db.execute(sql`delete from core_report`);
});

describe("the calendar", () => {
  it("has each certificate once with the cores that use it, what ends next first", {
    tags: "workerd",
  }, async () => {
    const leaf = certificateOf("CN=ingest", 80);
    const intermediate = certificateOf("CN=intermediate", 29);
    await reportAs("core-1", chain(intermediate, leaf));
    await reportAs("core-2", chain(certificateOf("CN=ingest", 5)));
    await reportAs("core-3", chain(intermediate, leaf));
    expect(await linesOf("ingest_server")).toEqual([
      ["CN=ingest", "core-2", inDays(5), "warning"],
      // As `GET /v1/system` says of the server certificate of ingest.
      ["CN=intermediate", "core-1,core-3", inDays(29), "ready"],
      ["CN=ingest", "core-1,core-3", inDays(80), "ready"],
    ]);
    const ends = (await read()).map((line) => line.ends_at);
    expect(ends.slice(0, 4)).toEqual([inDays(5), inDays(29), inDays(80), null]);
  });

  it("warns of an authority that ends beside another, and fails for what stops with it", async () => {
    const old = certificateOf("CN=old", 0.5);
    await reportAs("a", chain(old), bundle("database_ca", old, certificateOf("CN=new", 900)));
    expect(await linesOf("database_ca")).toEqual([
      ["CN=old", "a", old.endsAt, "warning"],
      ["CN=new", "a", inDays(900), "ready"],
    ]);
    expect(await linesOf("ingest_server")).toEqual([["CN=old", "a", old.endsAt, "not_ready"]]);
  });

  it("has what has no end, with the time of its file, and what only its issuer knows", async () => {
    const written = inDays(-400);
    const secret = { endsAt: null, parts: [], changedAt: written };
    await reportAs("a", { ...secret, name: "auth_token_secret" });
    const found = Object.fromEntries((await read()).map((line) => [line.name, line]));
    expect(found.auth_token_secret).toMatchObject({
      of: ["a", "web"],
      ends_at: null,
      ending: "none",
      changed_at: written,
      state: "ready",
    });
    expect(found.identity_provider).toMatchObject({ of: ["web"], ending: "issuer" });
    // It is not configured.
    expect(found.database_ca).toBeUndefined();
  });

  it("has the end of the database role's password, which PostgreSQL knows", async () => {
    await reportAs("a", { name: "database_password", endsAt: null, parts: [], changedAt: null });
    expect(await linesOf("database_password")).toEqual([[null, "a", null, "ready"]]);
    const end = await db.transaction(async (tx) => {
      await tx.execute(sql`create role calendar_test valid until '2031-01-01 00:00Z'`);
      await tx.execute(sql`set local role calendar_test`);
      const found = await findPasswordEnd(tx);
      await tx.execute(sql`reset role`);
      await tx.execute(sql`drop role calendar_test`);
      return found;
    });
    expect(end).toEqual(new Date(Date.UTC(2031, 0)));
  });

  it("forgets a core that has stopped, and is closed to people without the scope", async () => {
    await reportAs("a", chain(certificateOf("CN=ingest", 5)));
    await clock.advance(dayMs);
    expect(await linesOf("ingest_server")).toEqual([]);
    expect(await test.reader.get("/v1/system/calendar")).toMatchObject({
      status: 403,
      body: { code: "forbidden", scope: "audit" },
    });
  });
});
