import { execFileSync, spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { oneAtATime } from "../one-at-a-time.ts";

/**
 * Installs Debian's package `name` unless `program` of it answers `--version`. Throws where that needs a root that this process is not, or a
 * package manager that is missing: what needs the program then fails with the command to run.
 */
export const installPackage = async (name: string, program: string): Promise<void> => {
  const isInstalled = () => spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0;
  if (isInstalled()) return;
  if (process.getuid?.() !== 0 || spawnSync("apt-get", ["--version"], { stdio: "ignore" }).status !== 0)
    throw new Error(`${name} is needed and is not installed (Debian: apt-get install ${name})`);
  await oneAtATime(join(tmpdir(), "svc-apt.lock"), async () => {
    if (isInstalled()) return;
    const apt = (...args: string[]) =>
      execFileSync("apt-get", ["-o", "DPkg::Lock::Timeout=120", "-y", ...args], {
        stdio: "pipe",
        timeout: 180_000,
        env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      });
    try {
      apt("install", "--no-install-recommends", name);
    } catch {
      apt("update");
      apt("install", "--no-install-recommends", name);
    }
  });
};
