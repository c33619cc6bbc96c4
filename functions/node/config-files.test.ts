import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { repositoryFiles } from "#scripts/repository-files.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { readKeyFile, readTrustedFile } from "./config-files.ts";

let dir: string;

beforeEach(() => {
  dir = newFolder();
});

const file = (mode: number) => {
  const path = join(dir, `key-${mode.toString(8)}`);
  writeFileSync(path, "key bytes");
  chmodSync(path, mode);
  return path;
};

describe("readTrustedFile", () => {
  it("C1: reads what others may read, and rejects what group or world may write", () => {
    for (const mode of [0o600, 0o644, 0o444, 0o755])
      expect(readTrustedFile(file(mode)).toString()).toBe("key bytes");
    for (const mode of [0o620, 0o602, 0o664, 0o666, 0o777])
      expect(() => readTrustedFile(file(mode))).toThrow(
        /^the file is writable for group or world; chmod it to 0644$/,
      );
  });

  it("C1: is how core and web read every file that the configuration names", () => {
    const reader = /\breadFile(?:Sync)?\(/;
    const readers = repositoryFiles("functions", "ui/bff")
      .filter((path) => /(?<!\.test)\.ts$/.test(path))
      .filter((path) =>
        reader.test(readFileSync(path, "utf8").replaceAll(/^ *(?:\*|\/\/).*$/gm, "")),
      );
    expect(readers.sort()).toEqual([
      "functions/node/config-files.ts",
      // Files of the program itself, and of the kernel.
      "functions/node/read-migrations.ts",
      "functions/node/run-command.ts",
      // Statements and receipts are data: their signatures are checked.
      "functions/verify-completeness.ts",
      "functions/verify-receipts.ts",
      "ui/bff/server.ts",
    ]);
  });
});

describe("readKeyFile", () => {
  it("C1: reads 0600 and 0400, rejects any bit of group and world, and quotes nothing", () => {
    for (const mode of [0o600, 0o400, 0o700])
      expect(readKeyFile(file(mode)).toString()).toBe("key bytes");
    for (const mode of [0o640, 0o604, 0o620, 0o610, 0o601, 0o644, 0o660, 0o777]) {
      expect(() => readKeyFile(file(mode))).toThrow(
        /^the key file is open to group or world; chmod it to 0600$/,
      );
    }
  });

  it("C1: follows a symbolic link and checks the file it opened", () => {
    const open = join(dir, "to-open");
    symlinkSync(file(0o644), open);
    expect(() => readKeyFile(open)).toThrow("open to group or world");
    const closed = join(dir, "to-closed");
    symlinkSync(file(0o600), closed);
    expect(readKeyFile(closed).toString()).toBe("key bytes");
  });

  it("rejects a directory", () => {
    const path = join(dir, "directory");
    mkdirSync(path, { mode: 0o700 });
    expect(() => readKeyFile(path)).toThrow("not a regular file");
  });
});
