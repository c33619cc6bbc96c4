/**
 * `bun run credentials-swap`: runs `svc-collector renew` under strace, once for each system call that changes or persists files, and
 * lets that call fail with EIO or kills the process there. After each fault the config must validate with matching credentials, and the
 * next renewal must succeed and leave no file behind. Prints one JSON object; exit code 1 if that did not hold. Needs strace.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommandLine } from "../../../collector/commands/command-line.ts";
import { loadConfig } from "../../../collector/config/load-config.ts";
import { openIdentityDirectory } from "../../../collector/identity/identity-directory.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { createTestCollectorEnv } from "../../fakes/collector-env.ts";
import { issueFor, startManagementServer } from "../../fakes/management-server.ts";
import { createEnrolledHost } from "../../support/enrolled-host.ts";

const calls = [
  "mkdir",
  "rename",
  "symlink",
  "fsync",
  "fdatasync",
  "unlink",
  "rmdir",
  "fchmod",
  "readlink",
];
const faults = { error: "error=EIO", kill: "signal=KILL" } as const;
const program = join(import.meta.dirname, "../../../collector/main.ts");

const server = await startManagementServer();
const host = await createEnrolledHost({
  caPem: server.caPem,
  more: `management: {core_url: "${server.url}", ca_file: core-ca.pem}\n`,
});
server.reply((call) => issueFor(host.ca, call));
const work = await mkdtemp(join(tmpdir(), "credentials-swap-"));
const identity = join(host.dir, "identity");

/** Runs one renewal under strace; returns its exit code, null if it was killed. */
const renewUnderStrace = async (options: readonly string[]): Promise<number | null> => {
  const args = ["-f", "-qq", "-o", join(work, "trace"), ...options];
  const child = spawn(
    "strace",
    [...args, process.execPath, program, "renew", "--config", host.config, "--json"],
    {
      stdio: "ignore",
      // One worker thread, as strace counts calls per thread. No compile cache, as its files are not credentials.
      env: { ...process.env, UV_THREADPOOL_SIZE: "1", NODE_DISABLE_COMPILE_CACHE: "1" },
    },
  );
  const [code] = await once(child, "exit");
  return code;
};

const isValid = async () =>
  (await loadConfig(host.config, { effectiveUid: 1000 })).errors.length === 0;
const fingerprint = async () =>
  (await openIdentityDirectory(identity, { entropy: systemEntropy }).current())?.fingerprintSha256;

/** Counts how often one thread makes each call in a renewal without faults. */
const countCalls = async (): Promise<Map<string, number>> => {
  await renewUnderStrace(["-e", `trace=${calls.join()}`]);
  const perThread = new Map<string, number>();
  for (const line of (await readFile(join(work, "trace"), "utf8")).split("\n")) {
    const [, thread, call] = /^(\d+) +(\w+)\(/.exec(line) ?? [];
    const key = `${call} ${thread}`;
    if (call !== undefined) perThread.set(key, (perThread.get(key) ?? 0) + 1);
  }
  const counts = new Map<string, number>();
  for (const [key, count] of perThread) {
    const call = key.split(" ")[0] ?? "";
    counts.set(call, Math.max(counts.get(call) ?? 0, count));
  }
  return counts;
};

const violations: string[] = [];
const tally = { runs: 0, swapped: 0, kept: 0, killed: 0, failed: 0 };
try {
  // As root the collector rejects a config without this.
  const acknowledged = `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE\n${await readFile(host.config, "utf8")}`;
  if (process.geteuid?.() === 0) await writeFile(host.config, acknowledged);
  const counts = await countCalls();
  for (const [call, count] of counts)
    for (const [name, fault] of Object.entries(faults))
      for (let at = 1; at <= count; at++) {
        const before = await fingerprint();
        const code = await renewUnderStrace([
          "-e",
          `trace=${call}`,
          "-e",
          `inject=${call}:${fault}:when=${at}`,
        ]);
        tally.runs += 1;
        const killed = code === null || code > 128;
        if (killed) tally.killed += 1;
        else if (code !== 0) tally.failed += 1;
        const where = `${name} at ${call} number ${at}`;
        const happened =
          name === "kill"
            ? killed
            : (await readFile(join(work, "trace"), "utf8")).includes("(INJECTED)");
        if (!happened) violations.push(`${where}: the fault did not happen`);
        if (!(await isValid())) violations.push(`${where}: the config does not validate`);
        if ((await fingerprint()) === before) tally.kept += 1;
        else tally.swapped += 1;
        const again = await runCommandLine(
          ["renew", "--config", host.config],
          createTestCollectorEnv(),
        );
        if (again !== 0) violations.push(`${where}: the next renewal ended with ${again}`);
        const pairs = await readdir(join(identity, "pairs"));
        const left = (await readdir(identity)).filter((entry) => entry.startsWith("."));
        if (pairs.length > 2 || left.length > 0)
          violations.push(`${where}: something was left behind`);
      }
  console.log(
    JSON.stringify({
      calls: Object.fromEntries(counts),
      ...tally,
      violations,
      ok: violations.length === 0,
    }),
  );
  if (violations.length > 0 || tally.kept === 0 || tally.swapped === 0) process.exitCode = 1;
} finally {
  await server.close();
  await host.remove();
  await rm(work, { recursive: true, force: true });
}
