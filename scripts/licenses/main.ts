/**
 * `node scripts/licenses/main.ts DIR svc-server …`: writes the license texts of the packages in each program and of Node to `DIR/<program>`,
 * for the images, which contain both.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { bundleProgram, type ProgramName, programEntries } from "../bundle/bundle-programs.ts";
import { openTemporaryFolder } from "../temporary-folder.ts";
import { printNotices } from "./licenses.ts";
import { nodePackages, programPackages } from "./program-packages.ts";

const [folder, ...names] = process.argv.slice(2);
const isProgram = (name: string): name is ProgramName => name in programEntries;
if (folder === undefined || names.length === 0 || !names.every(isProgram)) {
  console.error("usage: node scripts/licenses/main.ts DIR PROGRAM…");
  process.exit(2);
}
await mkdir(folder, { recursive: true });
await using scratch = await openTemporaryFolder("notices");
for (const name of names) {
  const packages = await programPackages(
    name,
    await bundleProgram(programEntries[name], join(scratch.path, name)),
  );
  await writeFile(join(folder, name), printNotices([...packages, ...(await nodePackages())]));
}
