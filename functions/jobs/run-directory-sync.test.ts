import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { person } from "#drizzle/schema/operator.ts";
import { startDirectoryApi } from "#scripts/lab/directory-api.ts";
import { type TestCore, useTestCore } from "#tests/support/core.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { readKeyFile, readTrustedFile } from "../node/config-files.ts";
import { findDirectorySync } from "../store/directory/directory.ts";
import { runDirectorySync } from "./run-directory-sync.ts";

const folder = newFolder();
const directory = await startDirectoryApi();
const keyFile = join(folder, "service-account.json");
const test = await useTestCore({
  env: { SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: keyFile, SVC_DIRECTORY_API_URL: directory.url },
});
afterAll(() => directory.close());

const startJob = (core: TestCore, outcomes: string[], signal: AbortSignal) =>
  runDirectorySync(
    {
      core: core.core,
      readKeyFile: (path) => readKeyFile(path).toString("utf8"),
      readTrustedFile: (path) => readTrustedFile(path).toString("utf8"),
      exclusively: (work) => work(),
      observe: { ended: (outcome) => outcomes.push(outcome), snapshot: () => undefined },
    },
    signal,
  );

/** Advances the clock until the job has run once more and sleeps: it logs its result last. */
const advanceToResult = async ({ clock, log }: TestCore, ms: number) => {
  const results = () => log.lines.filter(({ fields }) => "job" in fields).length;
  const before = results();
  await clock.advance(ms);
  await expect.poll(results).toBe(before + 1);
};

it("syncs at once and at every interval, sooner after a failure, and uses a corrected key file without a restart", async () => {
  const outcomes: string[] = [];
  const stop = new AbortController();
  const running = startJob(test, outcomes, stop.signal);
  const nextAfter = async (ms: number) => {
    await advanceToResult(test, ms);
    return [outcomes.at(-1), (await findDirectorySync(test.db))?.reasonCode];
  };
  expect(await nextAfter(0)).toEqual(["failed", "key_file_unusable"]);
  expect(test.log.text()).toContain(
    "SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: cannot be read (ENOENT)",
  );
  await writeFile(keyFile, "hunter2", { mode: 0o600 });
  expect(await nextAfter(31_000)).toEqual(["failed", "key_file_unusable"]);
  await directory.writeKeyFile(folder);
  await chmod(keyFile, 0o640);
  expect(await nextAfter(61_000)).toEqual(["failed", "key_file_unusable"]);
  expect(test.log.text()).toContain("open to group or world");
  await chmod(keyFile, 0o600);
  expect(await nextAfter(121_000)).toEqual(["synced", null]);
  expect(await nextAfter(3_600_000)).toEqual(["synced", null]);
  stop.abort();
  await running;
  expect(outcomes).toEqual(["failed", "failed", "failed", "synced", "synced"]);
  for (const secret of ["hunter2", "PRIVATE KEY", "ya29."])
    expect(test.log.text()).not.toContain(secret);
});

it("applies a directory file within seconds of a change, and a faulty one leaves people unchanged", async () => {
  const path = join(folder, "directory.yaml");
  const core = await useTestCore({
    env: {
      SVC_DIRECTORY_PROVIDER: "file",
      SVC_DIRECTORY_FILE: path,
      SVC_DIRECTORY_DELEGATE_EMAIL: "",
      SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "",
    },
  });
  const stop = new AbortController();
  const outcomes: string[] = [];
  const running = startJob(core, outcomes, stop.signal);
  /** Lets the job read the file, and returns the outcome of the sync that follows. */
  const nextRead = async (syncs: number) => {
    await advanceToResult(core, syncs === 1 ? 0 : 5000);
    const last = await findDirectorySync(core.db);
    expect(last?.syncs).toBe(syncs);
    return last?.reasonCode ?? last?.outcome;
  };
  const scopes = async () =>
    (await core.db.select().from(person).orderBy(person.primaryEmail)).map((row) => [
      row.primaryEmail,
      row.scopes,
    ]);
  const people =
    "people:\n- { id: ada, email: ada@example.test }\n- { id: grace, email: grace@example.test }\n";

  expect(await nextRead(1)).toBe("file_unusable");
  await writeFile(path, `${people}groups: { svc-admin: [ada] }`, { mode: 0o644 });
  expect(await nextRead(2)).toBe("synced");
  const ada = ["ada@example.test", ["read", "audit", "admin"]];
  expect(await scopes()).toEqual(expect.arrayContaining([ada, ["grace@example.test", ["read"]]]));
  await writeFile(path, `${people}groups: { svc-admin: [ade] }`);
  expect(await nextRead(3)).toBe("file_invalid");
  expect(core.log.text()).toContain(
    "SVC_DIRECTORY_FILE: line 4: groups.svc-admin.0 is not the id or email",
  );
  expect(await scopes()).toContainEqual(ada);
  await chmod(path, 0o666);
  expect(await nextRead(4)).toBe("file_unusable");
  await chmod(path, 0o644);
  await writeFile(path, `${people}groups: { svc-admin: [grace] }`);
  expect(await nextRead(5)).toBe("synced");
  expect(await scopes()).toContainEqual(["ada@example.test", ["read"]]);
  stop.abort();
  await running;
});
