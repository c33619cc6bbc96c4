import { execFileSync, spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { oneAtATime } from "#scripts/one-at-a-time.ts";

const runs = (program: string): boolean =>
  spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0;

/**
 * Installs Debian's package `name` unless `program` of it answers `--version`. Throws where that needs a root that this process is not, or a
 * package manager that is missing: what needs the program then fails with the command to run.
 */
export const installPackage = async (name: string, program: string): Promise<void> => {
  if (runs(program)) return;
  if (
    process.getuid?.() !== 0 ||
    spawnSync("apt-get", ["--version"], { stdio: "ignore" }).status !== 0
  )
    throw new Error(`${name} is needed and is not installed (Debian: apt-get install ${name})`);
  await oneAtATime(join(tmpdir(), "svc-apt.lock"), async () => {
    if (runs(program)) return;
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

const attempts = new Map<string, Promise<boolean>>();

/**
 * Reports whether `program` runs, after an attempt to install Debian's package `name`; a process makes one. For the tests that need it: they are
 * reported as skipped without it.
 */
export const canRun = (name: string, program: string): Promise<boolean> => {
  const attempt =
    attempts.get(name) ??
    installPackage(name, program).then(
      () => runs(program),
      () => false,
    );
  attempts.set(name, attempt);
  return attempt;
};
