import { readFile } from "node:fs/promises";
import { asc } from "drizzle-orm";
import { afterAll, afterEach, beforeEach } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { readGoogleDirectory } from "#functions/directory/google-directory.ts";
import { parseServiceAccount } from "#functions/directory/service-account.ts";
import { type DirectorySyncNeeds, syncDirectory } from "#functions/jobs/run-directory-sync.ts";
import { openDatabaseSocket } from "#functions/node/database/database-servers.ts";
import { createDirectoryLock } from "#functions/store/directory/lock.ts";
import { systemClock } from "#kit/clock.ts";
import { directoryDomain, usualDirectory } from "#scripts/lab/directory-people.ts";
import { startFaultyDirectory } from "#tests/fakes/faulty-directory.ts";
import { createTestCore, type TestCore } from "../core.ts";
import { newFolder } from "../new-folder.ts";

const { signal } = new AbortController();

/** A directory API for the tests of a file, and for each test a core that syncs from it. */
export const setUpDirectorySync = async () => {
  const directory = await startFaultyDirectory({ pageSize: 7 });
  const account = parseServiceAccount(
    await readFile(await directory.writeKeyFile(newFolder()), "utf8"),
  );
  afterAll(() => directory.close());

  let test: TestCore;
  let observed: string[];
  beforeEach(async () => {
    test = await createTestCore();
    observed = [];
  });
  afterEach(async () => {
    directory.fail();
    directory.set(usualDirectory);
    await test.close();
  });

  const sync = async (
    changes: Partial<DirectorySyncNeeds> & { isFirst?: boolean; stop?: AbortSignal } = {},
  ) => {
    const { isFirst = true, stop = signal, ...needs } = changes;
    const read = (ending: AbortSignal) =>
      readGoogleDirectory({
        account,
        delegateEmail: "root@example.test",
        domain: directoryDomain,
        apiUrl: directory.url,
        signal: ending,
      });
    const exclusively = createDirectoryLock({
      url: test.databaseUrl,
      openSocket: openDatabaseSocket,
      clock: systemClock,
    });
    const observe = {
      ended: (outcome: string) => void observed.push(outcome),
      snapshot: () => undefined,
    };
    return syncDirectory(
      { ...test.core, read, exclusively, observe, ...needs },
      { isFirst, signal: stop },
    );
  };
  const stored = () =>
    test.db.select().from(person).orderBy(asc(person.primaryEmail), asc(person.userId));
  return {
    /** The core of the current test. */
    get test(): TestCore {
      return test;
    },
    /** The outcomes of the test's syncs. */
    get observed(): readonly string[] {
      return observed;
    },
    directory,
    sync,
    stored,
    peopleInDatabase: async () =>
      (await stored()).map(({ primaryEmail, status, scopes }) => [primaryEmail, status, scopes]),
    status: async () => await test.admin.read("/v1/directory/status"),
    events: async () => {
      const { body } = await test.admin.get<{ items: Record<string, unknown>[] }>(
        "/v1/audit-events",
      );
      return body.items.filter(({ action }) => String(action).startsWith("directory."));
    },
  };
};

/** Returns the people of the usual directory and `others` more. */
export const crowd = (others: number) => [
  ...usualDirectory.users,
  ...Array.from({ length: others }, (_, at) => ({
    id: `2${at}`,
    primaryEmail: `p${at}@example.test`,
  })),
];
