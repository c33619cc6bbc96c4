import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";

it("docs/verify-statement.mjs names the Node that it needs under one without zstd", () => {
  const older =
    'data:text/javascript,import zlib from "node:zlib"; zlib.zstdDecompressSync = undefined';
  const args = ["--import", older, "docs/verify-statement.mjs", "statement", "keys"];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    encoding: "utf8",
    timeout: 60_000,
  });
  const needed = `verify-statement.mjs needs Node 22.15 or later (this is ${process.version})\n`;
  expect([status, stdout, stderr]).toEqual([1, "", needed]);
});
