import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { buildPeer, findGo, peersFolder, recipes } from "./programs.ts";

const makeFolder = async () => {
  const folder = newFolder();
  return folder;
};

it("finds no Go in a folder without it", async () => {
  expect(findGo(await makeFolder())).toBeUndefined();
});

it("keeps programs and modules in the user's cache", () => {
  expect(peersFolder({ XDG_CACHE_HOME: "/cache" })).toBe("/cache/svc-bench-peers");
});

it("builds a peer once, with Go's folders within its own, and names it after its version", async () => {
  const folder = await makeFolder();
  const go = join(folder, "fake", "go");
  await mkdir(join(folder, "fake"));
  // Stands in for Go: records how it was called, and leaves a program.
  const script = `#!/bin/sh\necho "$GOMODCACHE $*" >> ${folder}/calls\nmkdir -p "$GOBIN"\necho built > "$GOBIN/step-ca"\n`;
  await writeFile(go, script, { mode: 0o755 });
  const program = await buildPeer("step-ca", go, folder);
  expect(program).toBe(join(folder, `step-ca-${recipes["step-ca"].version}`));
  expect(await buildPeer("step-ca", go, folder)).toBe(program);
  expect(await readFile(program, "utf8")).toBe("built\n");
  expect(await readFile(join(folder, "calls"), "utf8")).toBe(
    `${folder}/modules install github.com/smallstep/certificates/cmd/step-ca@v0.30.2\n`,
  );
});
