import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { runChatRoleJob } from "./run-chat-role-job.ts";

it("admits new roles at once and every ten seconds, and warns of the same left-out roles once", async () => {
  const clock = createTestClock();
  const warnings: unknown[] = [];
  const log = {
    warn: (fields: object) => warnings.push(fields),
    info: () => undefined,
    error: () => undefined,
  };
  const answers = [[], ["backup"], ["backup"], ["backup", "svc_web"], [], ["backup"]];
  let calls = 0;
  const stop = new AbortController();
  const running = runChatRoleJob(
    { clock, log: log as never },
    async () => answers[calls++] ?? [],
    stop.signal,
  );
  for (const call of answers.keys()) {
    await expect.poll(() => calls).toBe(call + 1);
    await clock.advance(9_000);
    expect(calls).toBe(call + 1);
    await clock.advance(1_000);
  }
  stop.abort();
  await running;
  expect(warnings).toEqual([
    { roles: "backup" },
    { roles: "backup, svc_web" },
    { roles: "backup" },
  ]);
});
