import { join } from "node:path";
import { expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { oneAtATime } from "./one-at-a-time.ts";

it("starts no call before the previous one has ended, even by a failure", async () => {
  const dir = newFolder();
  const lock = join(dir, "lock");
  const events: string[] = [];
  const { promise: second, resolve: secondIsCalled } = Promise.withResolvers<void>();
  const first = oneAtATime(lock, async () => {
    events.push("first begins");
    await second;
    events.push("first ends");
    throw new Error("no luck");
  });
  const refused = expect(first).rejects.toThrow("no luck");
  const then = oneAtATime(lock, async () => events.push("second begins"));
  secondIsCalled();
  await refused;
  await then;
  expect(events).toEqual(["first begins", "first ends", "second begins"]);
});
