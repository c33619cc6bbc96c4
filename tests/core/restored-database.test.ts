import { expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { createTestDatabase } from "../support/database.ts";
import { createTestLab } from "../support/deployment/lab.ts";
import { eventually } from "../support/eventually.ts";
import { whenDone } from "../support/new-folder.ts";
import { startProgram, stopProgram } from "../support/program.ts";
import { findStored } from "../support/stored-envelopes.ts";

/* docs/backup.md with the real programs: a database restored to before hosts enrolled and renewed, and the way back for these hosts. */

const wait = { timeout: 60_000 };

it("Q12: hosts that enrolled or renewed after the backup say so, and lose nothing when they are enrolled again", async () => {
  const { database, envOf, ...lab } = await createTestLab();
  const interval = { SVC_HEARTBEAT_INTERVAL: "11s" };
  const first = await lab.startCore(interval);
  const ports = { PORT: `${first.port}`, SVC_INGEST_GRPC_ADDR: `127.0.0.1:${first.ingestPort}` };
  const startAgain = (on = database) => lab.startCore({ ...interval, ...ports }, on);
  const edge = await lab.startEdge(first);
  const renewed = lab.createHost("renewed", edge, first);
  const late = lab.createHost("late", edge, first);
  await lab.writeToken(first);
  await renewed.enroll();
  await stopProgram(first.program);
  await lab.disconnect();
  const backup = await createTestDatabase(database);
  whenDone(() => backup.drop());

  const second = await startAgain();
  await late.enroll();
  const before = database.connect();
  const count = async () => (await findStored(before.sql)).length;
  for (const host of [renewed, late]) {
    await host.tail();
    await host.write("before the restore");
    host.start();
  }
  await expect.poll(count, wait).toBe(2);
  await renewed.renew();
  await expect.poll(renewed.hasPendingPromotion, wait).toBe(false);
  await before.close();
  await stopProgram(second.program);
  for (const host of [renewed, late]) await host.write("core is away 1", "core is away 2");

  const core = await startAgain(backup);
  await expect(lab.writeToken(core)).rejects.toThrow("access_held");
  const confirm = startProgram("functions/main.ts", ["confirm-access", people.admin.email], {
    ...envOf({ USER: "root" }, backup),
  });
  expect(await confirm.exited).toBe(0);
  expect(confirm.records).toEqual([
    { confirmed: [{ email: people.admin.email, scopes: expect.any(Array) }] },
  ]);
  for (const host of [renewed, late]) {
    await eventually(async () =>
      expect((await host.diag()).running?.forwarder.last_error).toMatch(
        /^certificate_unknown: .*svc-collector enroll --reenroll/,
      ),
    );
    await eventually(async () => expect((await host.diag()).queue.records).toBeGreaterThan(0));
    const rejected = {
      msg: "connection rejected",
      reason: "certificate_unknown",
      host_id: host.identity,
    };
    expect(core.program.records).toContainEqual(expect.objectContaining(rejected));
  }

  await lab.writeToken(core, { reenrollment: "replace" });
  for (const host of [renewed, late]) await host.enroll("--reenroll");
  const restored = backup.connect();
  const stored = async () => (await findStored(restored.sql)).map(({ text }) => text);
  await expect
    .poll(stored, wait)
    .toEqual(
      [late, renewed].flatMap(({ deviceId }) =>
        [1, 2].map((line) => `${deviceId} core is away ${line}`),
      ),
    );
  const gaps = await restored.sql<{ host: string; details: object }[]>`
    select details->>'host_id' as host, details from audit_event where action = 'ingest.gap' order by 1`;
  expect(gaps).toMatchObject(
    [late, renewed].map(({ identity }) => ({ host: identity, details: { from: 1, through: 1 } })),
  );
  for (const host of [renewed, late]) {
    await eventually(async () =>
      expect((await host.diag()).running?.heartbeat.last_error ?? null).toBeNull(),
    );
    await host.stop();
  }
});
