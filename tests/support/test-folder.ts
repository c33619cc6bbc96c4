import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

/** Makes a folder of a test file, which is deleted behind all that the file cleans up after it. */
export const makeTestFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "svc-test-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
};
