import { expect, it } from "vitest";
import type { Executor } from "#functions/store/database/database.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import type { ResidentHosts } from "./columns/resident-hosts.ts";
import { createHostSources } from "./host-sources.ts";

it("reads the sources again after a read has failed and its error was reported", async () => {
  const clock = createTestClock();
  let isAvailable = false;
  const execute = async () => {
    if (!isAvailable) throw new Error("unavailable");
    return [];
  };
  const sources = createHostSources({ db: { execute } as unknown as Executor, clock });
  const view = { ids: [] as string[] } as unknown as ResidentHosts;
  const count = async () => {
    const counted = sources.count(view, new Uint8Array(), new Date(clock.now()));
    await clock.advance(1);
    return counted;
  };
  expect(await count()).toBeUndefined();
  await expect(count()).rejects.toThrow("unavailable");
  isAvailable = true;
  await count();
  expect(await count()).toEqual(new Map());
});
