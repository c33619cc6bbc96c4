import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { startDirectoryApi } from "../../scripts/lab/directory-api.ts";
import { createTestCore } from "../../tests/core.ts";
import { readKeyFile } from "../node/read-key-file.ts";
import { findDirectorySync } from "../store/directory.ts";
import { runDirectorySync } from "./run-directory-sync.ts";

const folder = await mkdtemp(join(tmpdir(), "svc-directory-"));
const directory = await startDirectoryApi();
const keyFile = join(folder, "service-account.json");
const test = await createTestCore({
  env: { SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: keyFile, SVC_DIRECTORY_API_URL: directory.url },
});
afterAll(async () => {
  await directory.close();
  await test.close();
  await rm(folder, { recursive: true });
});

it("syncs at once and at every interval, sooner after a failure, and uses a corrected key file without a restart", async () => {
  const outcomes: string[] = [];
  const stop = new AbortController();
  const running = runDirectorySync(
    {
      core: test.core,
      readKeyFile: (path) => readKeyFile(path).toString("utf8"),
      exclusively: (work) => work(),
      observe: { ended: (outcome) => outcomes.push(outcome), snapshot: () => undefined },
    },
    stop.signal,
  );
  // The job logs its result last, before it sleeps.
  const logged = () => test.log.lines.filter(({ fields }) => "job" in fields).length;
  const nextAfter = async (ms: number) => {
    const before = logged();
    await test.clock.advance(ms);
    await expect.poll(logged).toBe(before + 1);
    return [outcomes.at(-1), (await findDirectorySync(test.db))?.reasonCode];
  };
  expect(await nextAfter(0)).toEqual(["failed", "key_file_unusable"]);
  expect(test.log.text()).toContain("SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: cannot be read (ENOENT)");
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
  for (const secret of ["hunter2", "PRIVATE KEY", "ya29."]) expect(test.log.text()).not.toContain(secret);
});
