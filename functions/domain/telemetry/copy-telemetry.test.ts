import { expect, it } from "vitest";
import { TableRefused } from "#functions/store/ingest/telemetry-table.ts";
import { createTestCore } from "#tests/support/core.ts";
import { copyTelemetry } from "./copy-telemetry.ts";

it("rejects with why a copy failed, even if the audit log rejects the event of its end", async () => {
  const { core, database } = await createTestCore();
  const { sql } = database.connect();
  await sql.unsafe(`
    create table incident ();
    create function refuse() returns trigger language plpgsql as $$ begin raise 'no room for events'; end $$;
    create trigger refuse before insert on audit_event for each row when (new.outcome = 'failure') execute function refuse()`);
  const copy = { table: "incident", from: () => 0, to: (now: number) => now };
  await expect(copyTelemetry({ ...core, sql }, copy, "ada")).rejects.toThrow(TableRefused);
});
