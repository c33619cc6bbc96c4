import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { useTestCore } from "#tests/support/core.ts";
import { auditedExport, type ExportBatch, exportBegun } from "./audited-export.ts";

const test = await useTestCore();

type Read = PromiseWithResolvers<ExportBatch<string, number>>;

/** An export whose reads end when the test ends them. */
const openExport = (id: string) => {
  const { userId, email } = test.people.auditor;
  const reads: Read[] = [];
  const batches = auditedExport<string, number>(
    test.core,
    {
      caller: { userId, email, scopes: [] },
      origin: { remoteAddress: "127.0.0.1", requestId: id },
      asked: {},
    },
    { action: "fleet.export", target: { type: "fleet_export", id } },
    () => {
      const read = Promise.withResolvers<ExportBatch<string, number>>();
      reads.push(read);
      return read.promise;
    },
  );
  return { reads, batches };
};

const eventsOf = (id: string) =>
  test.db.execute(
    sql`select outcome, reason, details from audit_event where target_id = ${id} order by id`,
  );

const begun = { outcome: "success", reason: exportBegun, details: { filters: {} } };

it("reads one batch ahead of the reader, and none further", async () => {
  const { reads, batches } = openExport("whole");
  const first = batches.next();
  reads[0]?.resolve({ rows: ["a"], next: 1 });
  expect((await first).value).toEqual(["a"]);
  expect(reads).toHaveLength(2);
  reads[1]?.resolve({ rows: ["b"], next: 2 });
  await reads[1]?.promise;
  expect(reads).toHaveLength(2);
  expect((await batches.next()).value).toEqual(["b"]);
  reads[2]?.resolve({ rows: ["c"], next: null });
  expect((await batches.next()).value).toEqual(["c"]);
  expect((await batches.next()).done).toBe(true);
  expect(await eventsOf("whole")).toMatchObject([
    begun,
    { outcome: "success", reason: null, details: { rows: 3 } },
  ]);
});

it("is in the log before a row of it is given, so that one of a process that is killed then is, too", async () => {
  const short = openExport("short");
  const long = openExport("long");
  const first = [short, long].map(({ batches }) => batches.next());
  short.reads[0]?.resolve({ rows: ["a"], next: null });
  long.reads[0]?.resolve({ rows: ["a"], next: 1 });
  await Promise.all(first);
  expect(await eventsOf("short")).toMatchObject([
    { outcome: "success", reason: null, details: { rows: 1 } },
  ]);
  expect(await eventsOf("long")).toEqual([begun]);
  await short.batches.return();
  expect(await eventsOf("short")).toHaveLength(1);
});

it("ends the read ahead before it audits a reader who stops, and counts only the rows that the reader took", async () => {
  const { reads, batches } = openExport("stopped");
  const first = batches.next();
  reads[0]?.resolve({ rows: ["a"], next: 1 });
  await first;
  const stopped = batches.return();
  expect(await eventsOf("stopped")).toEqual([begun]);
  reads[1]?.reject(new Error("the reader has stopped anyway"));
  await stopped;
  const reason = "the reader disconnected before the end";
  expect(await eventsOf("stopped")).toMatchObject([
    begun,
    { outcome: "failure", reason, details: { rows: 1 } },
  ]);
});
