/**
 * Runs compose.yaml with compose.lab.yaml as its user would: `up`, sign-in through web and the identity provider, an enrolled collector
 * whose envelopes are stored, `down`, and `up` again with the data there.
 *
 * docker-compose 1.29 talks to podman's service, which has no timers for health checks where systemd does not run: this test ticks them.
 */

import { spawn } from "node:child_process";
import { join } from "node:path";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import type { LabContext } from "../lab/context.ts";
import { people } from "../lab/people.ts";
import { endChild } from "../lab/processes.ts";
import { waitUntil } from "../lab/wait-until.ts";
import { signInAnew } from "../lab/walk-sign-in.ts";
import { findPorts } from "../ports.ts";
import { root } from "../repository-files.ts";
import { type BaseImage, preparePostgres } from "./base-image.ts";
import { buildImage, imageReference } from "./build-images.ts";
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

interface ComposeOptions {
  base: BaseImage;
  context: LabContext;
  cleanup: AsyncDisposableStack;
}

/** Runs it; the images of `imageNames` are built already. What it starts ends with `cleanup`. */
export const composeTest = async (
  tools: ContainerTools,
  { base, context, cleanup }: ComposeOptions,
): Promise<ComposeReport> => {
  const { clock, signal, progress } = context;
  progress("building the lab's image");
  const lab = await buildImage(tools, { name: "lab", base, signal });
  const database = await preparePostgres(tools, base);
  const socket = startService(tools, cleanup);
  const images = { lab: lab.reference, database };
  const { env, origin } = await composeEnvironment(tools, { socket, images, context });
  const limits = { env, cwd: root, timeoutMs: upTimeoutMs, signal };
  const compose = (...args: string[]) =>
    runToEnd("docker-compose", ["--project-name", project, ...args], limits);
  cleanup.defer(tickHealth(tools, context).stop);

  progress("compose.yaml without secrets");
  const without = (...args: string[]) => compose(...envFile, "-f", "compose.yaml", ...args);
  const upDatabase = ["up", "--no-build", "--exit-code-from", "database", "database"];
  const without_secrets = await without(...upDatabase).then(() => "", firstFault);
  await without("down", "--volumes");

  const upSeconds: number[] = [];
  const up = async (): Promise<void> => {
    const startedAt = clock.monotonic();
    await compose(...files, "up", "--detach", "--no-build");
    upSeconds.push(Math.round((clock.monotonic() - startedAt) / 100) / 10);
  };
  // podman refuses to remove web while another container is in its network.
  const down = (...args: string[]) =>
    compose(...files, "rm", "--stop", "--force", "identity-provider").then(() =>
      compose(...files, "down", "--timeout", "30", ...args),
    );
  const observe = async () => ({
    ...(await readFleet(origin, context)),
    stored: await countStored(tools, context),
  });

  progress("up: health-ordered start, sign-in, an enrolled collector");
  await up();
  const order = await startOrder(tools);
  const first = await observe();
  progress("down, and up again");
  await down();
  await up();
  const second = await observe();
  await down("--volumes");
  const ok =
    isInOrder(order, ["database", "core", "web-role", "web"]) &&
    [first, second].every(({ email, hosts }) => email === people.auditor.email && hosts === 1) &&
    second.stored >= first.stored &&
    without_secrets.includes(noSecrets);
  const both = [first, second];
  return {
    database,
    up_seconds: upSeconds,
    order,
    signed_in: both.map(({ email }) => email),
    hosts: both.map(({ hosts }) => hosts),
    stored: both.map(({ stored }) => stored),
    without_secrets,
    ok,
  };
};

const isInOrder = (order: readonly string[], wanted: readonly string[]): boolean => {
  const places = wanted.map((name) => order.indexOf(name));
  return places.every((at, index) => at > (places[index - 1] ?? -1));
};

/** Returns the environment of the composition, whose ports are free, and the origin of web. */
const composeEnvironment = async (
  tools: ContainerTools,
  {
    socket,
    images,
    context,
  }: { socket: string; images: { lab: string; database: string }; context: LabContext },
) => {
  const names = ["WEB", "IDP", "EDGE", "CORE", "INGEST"];
  const ports = await findPorts(names.length, context.entropy);
  const built = (["core", "web", "collector"] as const).map((name) => [
    `SVC_${name.toUpperCase()}_IMAGE`,
    imageReference(name),
  ]);
  return {
    origin: `http://localhost:${ports[0]}`,
    env: {
      ...tools.env,
      DOCKER_HOST: socket,
      SVC_LAB_IMAGE: images.lab,
      SVC_POSTGRES_IMAGE: images.database,
      SVC_SECRETS_DIR: join(context.dir, noSecrets),
      ...Object.fromEntries(built),
      ...Object.fromEntries(names.map((name, index) => [`SVC_${name}_PORT`, String(ports[index])])),
    },
  };
};

/** Signs in as the auditor; returns the person and the hosts once one is healthy. */
const readFleet = async (origin: string, { clock, signal }: LabContext) => {
  const agent = await signInAnew(origin, "auditor", "/fleet");
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

const countStored = ({ podman }: ContainerTools, { clock, signal }: LabContext) =>
  waitUntil({ what: "an envelope is stored", clock, signal }, async () => {
    const query = "select coalesce(sum(envelopes), 0) from ingest_block";
    const psql = ["psql", "--username=postgres", "--dbname=svc", "--csv", "--tuples-only"];
    const args = ["exec", `${project}_database_1`, ...psql, "--command", query];
    return Number(await podman(args)) || undefined;
  });

const startService = ({ env, dir }: ContainerTools, cleanup: AsyncDisposableStack): string => {
  const socket = `unix://${join(dir, "podman.sock")}`;
  const service = spawn("podman", ["system", "service", "--time", "0", socket], {
    env,
    stdio: "ignore",
  });
  cleanup.defer(() => endChild(service, "SIGTERM"));
  return socket;
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
