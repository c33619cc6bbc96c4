/**
 * Runs compose.yaml with compose.lab.yaml as its user would: `up`, sign-in through web and the identity provider, an enrolled collector
 * whose envelopes are stored, `down`, and `up` again with the data there.
 *
 * docker-compose 1.29 talks to podman's service, which has no timers for health checks where systemd does not run: this test ticks them.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { FleetHealthReport } from "../../proto/fleet-health/report.ts";
import type { LabContext } from "../lab/context.ts";
import { people } from "../lab/people.ts";
import { createUserAgent } from "../lab/user-agent.ts";
import { waitUntil } from "../lab/wait-until.ts";
import { walkSignIn } from "../lab/walk-sign-in.ts";
import { findPorts } from "../ports.ts";
import { root } from "../repository-files.ts";
import { type BaseImage, preparePostgres } from "./base-image.ts";
import { buildImage, type ImageName, imageReference } from "./build-images.ts";
import type { ContainerTools } from "./container-tools.ts";
import { CommandError, runToEnd } from "./run-to-end.ts";

const project = "svc-images-test";
const envFile = ["--env-file", "compose.lab.env"];
const files = [...envFile, "-f", "compose.yaml", "-f", "compose.lab.yaml"];
/** A folder that does not exist. */
const noSecrets = "no-secrets";
const healthEveryMs = 1000;
const upTimeoutMs = 300_000;

/** What the run of the composition found. */
export interface ComposeReport {
  /** The image of the database: the official one, or a stand-in. */
  database: string;
  /** Seconds of the first and the second `up`. */
  up_seconds: number[];
  /** The services in the order in which they started. */
  order: string[];
  /** The person who signed in, and the hosts on the fleet page, before `down` and after the second `up`. */
  signed_in: string[];
  hosts: number[];
  /** Envelopes in the database, before `down` and after the second `up`. */
  stored: number[];
  /** The first line with which `up` of compose.yaml alone ends where no secret exists. */
  without_secrets: string;
  ok: boolean;
}

/** Runs it; the images of `imageNames` are built already. What it starts ends with `cleanup`. */
export const composeTest = async (
  tools: ContainerTools,
  {
    base,
    context,
    cleanup,
  }: { base: BaseImage; context: LabContext; cleanup: AsyncDisposableStack },
): Promise<ComposeReport> => {
  const { clock, entropy, signal, progress } = context;
  progress("building the lab's image");
  const lab = await buildImage(tools, { name: "lab", base, signal });
  const database = await preparePostgres(tools, base);
  const socket = `unix://${join(tools.dir, "podman.sock")}`;
  startService(tools, socket, cleanup);
  const [web = 0, provider = 0, edge = 0, core = 0, ingest = 0] = await findPorts(5, entropy);
  const built = (name: ImageName) => imageReference(name);
  const env = {
    ...tools.env,
    DOCKER_HOST: socket,
    SVC_CORE_IMAGE: built("core"),
    SVC_WEB_IMAGE: built("web"),
    SVC_COLLECTOR_IMAGE: built("collector"),
    SVC_LAB_IMAGE: lab.reference,
    SVC_POSTGRES_IMAGE: database,
    SVC_WEB_PORT: String(web),
    SVC_IDP_PORT: String(provider),
    SVC_EDGE_PORT: String(edge),
    SVC_CORE_PORT: String(core),
    SVC_INGEST_PORT: String(ingest),
    SVC_SECRETS_DIR: join(context.dir, noSecrets),
  };
  const compose = (...args: string[]) =>
    runToEnd("docker-compose", ["--project-name", project, ...args], {
      env,
      cwd: root,
      timeoutMs: upTimeoutMs,
      signal,
    });
  const health = tickHealth(tools, context);
  cleanup.defer(() => health.stop());

  progress("compose.yaml without secrets");
  const without_secrets = await compose(
    ...envFile,
    "-f",
    "compose.yaml",
    "up",
    "--no-build",
    "--exit-code-from",
    "database",
    "database",
  ).then(
    () => "",
    (error: unknown) => firstFault(error),
  );
  await compose(...envFile, "-f", "compose.yaml", "down", "--volumes");

  const origin = `http://localhost:${web}`;
  const up = async (): Promise<number> => {
    const startedAt = clock.monotonic();
    await compose(...files, "up", "--detach", "--no-build");
    return Math.round((clock.monotonic() - startedAt) / 100) / 10;
  };
  const down = async (...args: string[]): Promise<void> => {
    // podman refuses to remove web while another container is in its network.
    await compose(...files, "rm", "--stop", "--force", "identity-provider");
    await compose(...files, "down", "--timeout", "30", ...args);
  };
  const readFleet = async () => {
    const agent = createUserAgent();
    await walkSignIn(agent, { origin, account: people.auditor.subject, returnTo: "/fleet" });
    const { email } = JSON.parse((await agent.visit(`${origin}/api/core/whoami`)).text) as {
      email: string;
    };
    const fleet = await waitUntil({ what: "the host forwards", clock, signal }, async () => {
      const { text } = await agent.visit(`${origin}/api/core/collector/health?limit=10`);
      const report = JSON.parse(text) as FleetHealthReport;
      return report.items.some(({ state }) => state === "healthy") ? report : undefined;
    });
    return { email, hosts: fleet.items.length };
  };
  const countStored = () =>
    waitUntil({ what: "an envelope is stored", clock, signal }, async () => {
      const query = "select coalesce(sum(envelopes), 0) from ingest_block";
      const psql = [
        "psql",
        "--username=postgres",
        "--dbname=svc",
        "--no-align",
        "--tuples-only",
        "--command",
        query,
      ];
      return Number(await tools.podman(["exec", `${project}_database_1`, ...psql])) || undefined;
    });

  progress("up: health-ordered start, sign-in, an enrolled collector");
  const upSeconds = [await up()];
  const order = await startOrder(tools);
  const first = { ...(await readFleet()), stored: await countStored() };
  progress("down, and up again");
  await down();
  upSeconds.push(await up());
  const second = { ...(await readFleet()), stored: await countStored() };
  await down("--volumes");
  const starts = ["database", "core", "web-role", "web"].map((name) => order.indexOf(name));
  const ok =
    starts.every((at, index) => at >= 0 && at > (starts[index - 1] ?? -1)) &&
    [first, second].every(({ email, hosts }) => email === people.auditor.email && hosts === 1) &&
    second.stored >= first.stored &&
    without_secrets.includes(noSecrets);
  return {
    database,
    up_seconds: upSeconds,
    order,
    signed_in: [first.email, second.email],
    hosts: [first.hosts, second.hosts],
    stored: [first.stored, second.stored],
    without_secrets,
    ok,
  };
};

const startService = (
  { env }: ContainerTools,
  socket: string,
  cleanup: AsyncDisposableStack,
): void => {
  const service = spawn("podman", ["system", "service", "--time", "0", socket], {
    env,
    stdio: "ignore",
  });
  cleanup.defer(() => end(service));
};

const end = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
};

/** Runs the health check of each running container once a second, until stopped. */
const tickHealth = (
  { podman }: ContainerTools,
  { clock, signal }: LabContext,
): { stop(): Promise<void> } => {
  const stopping = new AbortController();
  const either = AbortSignal.any([signal, stopping.signal]);
  const tick = async () => {
    while (!either.aborted) {
      const running = await podman(["ps", "--quiet"]).catch(() => "");
      // Fails for a container that is unhealthy or has no health check.
      for (const id of running.split("\n").filter(Boolean))
        await podman(["healthcheck", "run", id]).catch(() => undefined);
      await clock.sleep(healthEveryMs, either).catch(() => undefined);
    }
  };
  const ticking = tick();
  return {
    stop: () => {
      stopping.abort();
      return ticking;
    },
  };
};

/** Returns the services by the time at which their containers started. */
const startOrder = async ({ podman }: ContainerTools): Promise<string[]> => {
  const ids = (await podman(["ps", "--all", "--quiet"])).split("\n").filter(Boolean);
  const found = JSON.parse(await podman(["inspect", ...ids])) as {
    State: { StartedAt: string };
    Config: { Labels: Record<string, string> };
  }[];
  return found
    .toSorted((a, b) => (a.State.StartedAt < b.State.StartedAt ? -1 : 1))
    .map(({ Config }) => Config.Labels["com.docker.compose.service"] ?? "");
};

const firstFault = (error: unknown): string => {
  if (!(error instanceof CommandError)) throw error;
  const lines = error.message.split("\n").filter((line) => line.includes(noSecrets));
  return lines[0]?.trim() ?? error.message.slice(0, 300);
};
