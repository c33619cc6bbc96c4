import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { buildDebianPackage, installedBytesMax } from "./build-debian-package.ts";

it("rejects a package that would install more than the goal allows", async () => {
  const dir = mkdtempSync(join(tmpdir(), "debian-package-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const executable = join(dir, "svc-collector");
  writeFileSync(executable, "");
  truncateSync(executable, installedBytesMax);
  const contents = { executable, completions: { bash: "", zsh: "", fish: "" }, version: "0.0.0", notices: "" };
  await expect(buildDebianPackage(dir, contents)).rejects.toThrow(/would install \d+ bytes/);
});
