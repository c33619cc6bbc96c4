import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, onTestFinished } from "vitest";

/** Creates a folder in the system's temporary one, and deletes it at the end of the test, or of the file when no test runs. */
export const newFolder = (): string => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "svc-test-")));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    onTestFinished(remove);
  } catch {
    afterAll(remove);
  }
  return folder;
};
