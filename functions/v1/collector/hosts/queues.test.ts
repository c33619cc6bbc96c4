import { expect, it } from "vitest";
import { noteQueues } from "#functions/store/ingest/queues.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { db, clock } = test;

it("lists the queues of a host, and closes one that will not speak again, once and audited", {
  tags: "workerd",
}, async () => {
  const { enroll } = await createTestToken(test);
  const { identity, identityId } = await enroll("a");
  const queue = "0b".repeat(16);
  await noteQueues(
    db,
    [{ hostId: identity, queueId: Uint8Array.fromHex(queue), sendsAccounts: true }],
    new Date(clock.now()),
  );
  const path = `/v1/collector/hosts/${identityId}/queues`;
  const now = clock.iso();
  const open = {
    queue_id: queue,
    first_seen_at: now,
    last_seen_at: now,
    ended_at: null,
    ending: null,
  };
  expect(await test.auditor.read(path)).toMatchObject({ items: [open] });
  const close = (id: string) =>
    test.admin.post(`${path}/${id}/close`, { reason_code: "disk_lost" });
  expect((await close("0c".repeat(16))).status).toBe(404);
  expect((await close("0c")).status).toBe(422);
  const closed = { ...open, ended_at: now, ending: "closed" };
  expect(await close(queue)).toMatchObject({ status: 200, body: { items: [closed] } });
  expect(await close(queue)).toMatchObject({ body: { code: "conflict" } });
  expect(await test.events("action=queue.close")).toMatchObject([
    { reason_code: "disk_lost", details: { identity, queue_id: queue } },
  ]);
});
