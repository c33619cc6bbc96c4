import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { fetchStatus } from "../../collector/status/status-socket.ts";
import { rootAcknowledgement } from "../../proto/collector-config/schema.ts";
import { type Surroundings, startWorld, type World } from "../demo/world.ts";
import { setSources } from "../lab/enroll-collector.ts";
import { waitUntil } from "../lab/wait-until.ts";

/** What the executable did on a PATH that holds nothing. */
export interface ExecutableReport {
  ok: boolean;
  enroll_seconds: number;
  /** From the start of `run` until core has answered it. */
  connected_seconds: number;
  lines_written: number;
  lines_stored: number;
  diag_ok: boolean;
  /** Exit code of `run` after SIGTERM. */
  stopped: number | null;
}

const identityPrefix = "spiffe://fleet.example.test/packaged/";
const lines = 1_000;
/** Nothing of this machine's PATH, nor of what would tell Node anything. */
const env = { PATH: "/nonexistent" };

/**
 * Lets the executable enroll at a real core over TLS, run, forward the lines of a file, tell of itself by `diag` and `status`, and stop;
 * what is started ends with `cleanup`.
 */
export const checkExecutable = async (
  executable: string,
  surroundings: Surroundings,
  cleanup: AsyncDisposableStack,
): Promise<ExecutableReport> => {
  const world = await startWorld(surroundings, cleanup);
  const dir = join(surroundings.dir, "packaged");
  const configDir = join(dir, "etc");
  const config = join(configDir, "collector.yaml");
  await mkdir(join(dir, "log"), { recursive: true });
  const call = async (...args: string[]) =>
    JSON.parse((await promisify(execFile)(executable, args, { env, timeout: 60_000 })).stdout);

  surroundings.progress("the executable enrolls, runs and forwards");
  const tokenFile = join(dir, "token");
  await writeFile(tokenFile, await createToken(world), { mode: 0o600 });
  const begun = performance.now();
  await call(
    ...["enroll", "--json", "--core", world.edge.url, "--ingest", world.core.ingestEndpoint],
    ...["--token-file", tokenFile, "--device-id", "one", "--identity-prefix", identityPrefix],
    ...["--ca-bundle", world.lab.serverCaFile, "--config-dir", configDir],
    ...(process.geteuid?.() === 0 ? ["--allow-root-acknowledged", rootAcknowledgement] : []),
  );
  const enrolled = performance.now();
  const log = join(dir, "log", "app.log");
  await setSources(config, [{ type: "file", include: [log], start_at: "beginning" }]);

  const started = performance.now();
  const running = spawn(executable, ["run", "--config", config], { env, stdio: ["ignore", "ignore", "inherit"] });
  cleanup.defer(() => end(running, "SIGKILL").then(() => undefined));
  const wait = (what: string, isSo: () => Promise<boolean>) =>
    waitUntil({ what, ...surroundings, everyMs: 5 }, async () => (await isSo()) || undefined);
  await wait("the executable forwards", async () => (await fetchStatus(join(configDir, "data"))).forwarder.connected);
  const connected = performance.now();

  const text = Array.from({ length: lines }, (_, index) => `packaged line ${index}\n`).join("");
  await appendFile(log, text);
  const countStored = async () => {
    const [row] = await world.sql<{ count: number }[]>`
      select count(distinct payload)::int as count from ingest_envelope where host_id = ${`${identityPrefix}one`}`;
    return row?.count ?? 0;
  };
  await wait("its lines are stored", async () => (await countStored()) >= lines);
  const status = await call("status", "--json", "--config", config);
  const diag = await call("diag", "--json", "--config", config);
  const stored = await countStored();
  const stopped = await end(running, "SIGTERM");
  const diagOk = diag.validation.ok && diag.certificate.identity === status.identity;
  return {
    ok: stored === lines && diagOk && stopped === 0,
    enroll_seconds: seconds(enrolled - begun),
    connected_seconds: seconds(connected - started),
    lines_written: lines,
    lines_stored: stored,
    diag_ok: diagOk,
    stopped,
  };
};

const seconds = (ms: number): number => Math.round(ms) / 1000;

const end = async (child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<number | null> => {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill(signal);
    await once(child, "exit");
  }
  return child.exitCode;
};

const createToken = async ({ api }: World): Promise<string> => {
  const policies = "/v1/collector/enrollment-policies";
  const policy = await api<{ id: string }>("admin", "POST", policies, {
    name: "packaged hosts",
    allowed_identity_prefixes: [identityPrefix],
  });
  const { token } = await api<{ token: string }>("admin", "POST", `${policies}/${policy.id}/tokens`, {});
  return token;
};
