import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { newFolder } from "#tests/support/new-folder.ts";

/** Reports whether this user may mount a file system that does not answer. */
export const canHangMount = (): boolean => {
  try {
    accessSync("/dev/fuse", constants.R_OK | constants.W_OK);
    return process.geteuid?.() === 0;
  } catch {
    return false;
  }
};

/** Mounts a file system of which every call hangs, until the test has finished. Returns where. */
export const hangMount = async (): Promise<string> => {
  const at = newFolder();
  const server = spawn(process.execPath, [join(import.meta.dirname, "serve-hung-mount.ts"), at], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    server.kill("SIGKILL");
    await once(server, "exit");
    spawnSync("umount", ["-l", at]);
  });
  await once(server.stdout, "data");
  return at;
};
