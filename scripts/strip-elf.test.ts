import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";
import { copyStripped, stripElf } from "./strip-elf.ts";

it.skipIf(process.platform !== "linux")(
  "a stripped Node runs, and is smaller by its symbols",
  () => {
    const dir = newFolder();
    const node = join(dir, "node");
    copyStripped(process.execPath, node);
    const print =
      'process.stdout.write(process.version + (await import("node:sqlite")).DatabaseSync.name)';
    const args = ["--no-warnings", "--input-type=module", "--eval", print];
    expect(execFileSync(node, args, { encoding: "utf8", timeout: 60_000 })).toBe(
      `${process.version}DatabaseSync`,
    );
    expect(statSync(node).size).toBeLessThan(0.8 * statSync(process.execPath).size);
  },
);

it("leaves what is not a 64-bit ELF file as it is", () => {
  const script = Buffer.from("#!/bin/sh\n");
  expect(stripElf(script)).toBe(script);
});
