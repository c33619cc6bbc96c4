import { existsSync } from "node:fs";
import { appendFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fetchStatus } from "#collector/status/status-socket.ts";
import { version } from "#collector/version.ts";
import { findProgram } from "../images/container-tools.ts";
import { runToEnd } from "../images/run-to-end.ts";
import type { LabContext } from "../lab/context.ts";
import type { Deployment } from "../lab/deployment.ts";
import { enrollCollector } from "../lab/enroll-collector.ts";
import { createPolicyWithToken } from "../lab/operator-api.ts";
import { tabulateStored } from "../lab/tabulate-stored.ts";
import { waitUntil } from "../lab/wait-until.ts";
import type { PackagePlatform } from "../platforms/package-platforms.ts";

const identityPrefix = "spiffe://fleet.example.test/packaged/";
const lines = 1_000;

/** Lets the executable enroll at a real core over TLS, run, forward the lines of a file, answer `diag` and `status`, and stop. */
export const checkExecutable = async (
  executable: string,
  deployment: Deployment,
  context: LabContext,
) => {
  const { api, sql, edge, processes } = deployment;
  const dir = join(context.dir, "packaged");
  const log = join(dir, "log", "app.log");
  await mkdir(dirname(log), { recursive: true });
  const command = { executable, args: [], env: { PATH: "/nonexistent" } };

  context.progress("the executable enrolls, runs and forwards");
  const policy = { name: "packaged hosts", allowed_identity_prefixes: [identityPrefix] };
  const { token } = await createPolicyWithToken(api, policy);
  const enrollStartedAt = performance.now();
  const sources = [{ type: "file", include: [log], start_at: "beginning" }];
  const target = { ...deployment, edgeUrl: edge.url, identityPrefix };
  const collector = await enrollCollector({ name: "one", dir, token, sources, command }, target);
  const runStartedAt = performance.now();
  const running = collector.start();
  const wait = (what: string, holds: () => Promise<boolean>) =>
    waitUntil({ what, ...context, everyMs: 5 }, async () => (await holds()) || undefined);
  const dataDir = join(dirname(collector.configFile), "data");
  await wait(
    "the executable forwards",
    async () => (await fetchStatus(dataDir)).forwarder.connected,
  );
  const connectedAt = performance.now();

  await appendFile(
    log,
    Array.from({ length: lines }, (_, index) => `packaged line ${index}\n`).join(""),
  );
  const countStored = async () => {
    await tabulateStored(sql);
    const [row] = await sql<{ count: number }[]>`
      select count(distinct payload)::int as count from stored_envelope where host_id = ${collector.identity}`;
    return row?.count ?? 0;
  };
  await wait("its lines are stored", async () => (await countStored()) >= lines);
  const call = async (name: string) => {
    const { code, stdout, stderr } = await processes.run({
      ...command,
      args: [name, "--json", "--config", collector.configFile],
    });
    if (code !== 0) throw new Error(`${name} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout);
  };
  const status = await call("status");
  const diag = await call("diag");
  const stored = await countStored();
  const stopped = await running.stop();
  const diagOk = diag.validation.ok && diag.certificate.identity === status.identity;
  return {
    ok: stored === lines && diagOk && stopped === 0,
    enroll_seconds: seconds(runStartedAt - enrollStartedAt),
    // From the start of `run` until core has answered it.
    connected_seconds: seconds(connectedAt - runStartedAt),
    lines_written: lines,
    lines_stored: stored,
    diag_ok: diagOk,
    // Exit code of `run` after SIGTERM.
    stopped,
  };
};

/** QEMU for programs of other platforms, with the libraries of Debian's cross compilers. */
const emulators: Partial<Record<PackagePlatform, readonly [program: string, libraries: string]>> = {
  "linux-arm64": ["qemu-aarch64-static", "/usr/aarch64-linux-gnu"],
  "linux-x64": ["qemu-x86_64-static", "/usr/x86_64-linux-gnu"],
};

/** Runs `--version` and `diag` of an executable of another platform, if this machine has QEMU and the platform's libraries. */
export const checkEmulated = async (executable: string, platform: PackagePlatform) => {
  const [emulator = "", libraries = ""] = emulators[platform] ?? [];
  if (!findProgram(emulator) || !existsSync(join(libraries, "lib/libatomic.so.1")))
    return { ok: true, not_tried: `needs ${emulator} and ${libraries}` };
  const run = (...args: string[]) =>
    runToEnd(emulator, ["-L", libraries, executable, ...args], { env: {}, timeoutMs: 120_000 });
  const found = (await run("--version")).trim();
  const { validation } = JSON.parse(await run("diag", "--json", "--config", "/nonexistent.yaml"));
  return { ok: found === version && validation.ok === false, emulator, version: found };
};

const seconds = (ms: number): number => Math.round(ms) / 1000;
