import { sql } from "drizzle-orm";
import { afterAll, expect, it } from "vitest";
import { enrollmentPolicy } from "#drizzle/schema/enrollment.ts";
import { useTestDatabase } from "#tests/support/database.ts";
import { lockPolicies } from "../enrollment/policies.ts";
import { connectDatabase } from "./database.ts";
import { groupTransactions } from "./group-transactions.ts";
import { executePrepared } from "./statements.ts";

const database = await useTestDatabase();
const { db } = database.connect();
const pooled = connectDatabase({ url: database.url, pooled: true });
afterAll(() => pooled.close());

it.each([
  ["prepared", db],
  ["not prepared, as at a pooler", pooled.db],
])(
  "plans by index first, and runs statements that were called together in that order: %s",
  async (_, executor) => {
    const steps = 40;
    const run = groupTransactions<string, string[]>(executor, {
      run: async (tx) => {
        const plan = executePrepared<{ setting: string }>(
          tx,
          sql`select current_setting('enable_seqscan') as setting`,
        );
        // Built by drizzle and by hand, new to the connection and known to it, large and small.
        const calls = Array.from({ length: steps }, (_, step) =>
          step % 2 === 0
            ? executePrepared<{ last: string }>(
                tx,
                sql`select current_setting('svc.step', true) as last, set_config('svc.step', ${String(step)}, true),
                  length(${"x".repeat(step * 2000)}::text)`,
              )
            : tx
                .select({
                  last: sql<string>`current_setting('svc.step', true)`,
                  set: sql`set_config('svc.step', ${String(step)}, true)`,
                })
                .from(sql`(values (1)) as one`)
                .prepare("step")
                .execute(),
        );
        const [[planned], ...stepped] = await Promise.all([plan, ...calls]);
        return [[planned?.setting ?? "", ...stepped.map(([row]) => row?.last ?? "")]];
      },
      keyOf: (item) => item,
    });
    const inOrder = ["off", "", ...Array.from({ length: steps - 1 }, (_, step) => String(step))];
    for (const item of ["first", "again"]) expect(await run(item)).toEqual(inOrder);
  },
);

it("rolls back, with the failure that came first, when one of several statements fails", async () => {
  const policy = {
    id: crypto.randomUUID(),
    name: "kept",
    createdBy: crypto.randomUUID(),
    createdAt: new Date(0),
  };
  const run = groupTransactions<string, undefined>(db, {
    run: async (tx) => {
      await Promise.all([
        lockPolicies(tx, [policy.id]),
        executePrepared(
          tx,
          sql`insert into enrollment_policy (id, name, allowed_identity_prefixes, certificate_ttl_seconds, allowed_platforms,
              max_enrollments, max_enrollments_per_hour, allowed_source_cidrs, reenrollment, created_at, created_by)
              values (${policy.id}, ${policy.name}, '{}', 300, '{}', 0, 0, '{}', 'deny', now(), ${policy.createdBy})`,
        ),
        executePrepared(tx, sql`select 1 / ${0}::int`),
        executePrepared(tx, sql`select ${"after"}::text`),
      ]);
      return [undefined];
    },
    keyOf: (item) => item,
  });
  await expect(run("failing")).rejects.toMatchObject({
    cause: expect.objectContaining({ code: "22012" }),
  });
  expect(await db.$count(enrollmentPolicy)).toBe(0);
});
