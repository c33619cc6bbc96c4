import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Creates a temporary folder for this purpose; it is removed at the end of the scope of `await using`. */
export const openTemporaryFolder = (purpose: string) =>
  mkdtempDisposable(join(tmpdir(), `svc-${purpose}-`));
