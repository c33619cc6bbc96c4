import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, onTestFinished } from "vitest";

/** Ends something at the end of the test, or of the file or the group when no test runs. vitest ignores it in `beforeAll`. */
export const whenDone = (end: () => unknown): void => {
  try {
    onTestFinished(end as () => Promise<void>);
  } catch {
    afterAll(end as () => Promise<void>);
  }
};

/** Creates a folder in the system's temporary one, and deletes it at the end of the test, or of the file when no test runs. */
export const newFolder = (): string => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "svc-test-")));
  whenDone(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
};
