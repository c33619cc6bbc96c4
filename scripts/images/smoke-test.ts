/**
 * Runs the three images together, as a cluster would run them: read-only, as their own user, without capabilities. Core migrates a real
 * database, a collector enrolls and forwards one span, web serves its page; then each is stopped.
 */

import { lchown, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { InferOutput } from "valibot";
import type { ChatStatus } from "#proto/chat/session.ts";
import { createSpanSender } from "../demo/send-spans.ts";
import { createLabPki } from "../lab/ca/pki.ts";
import type { LabContext } from "../lab/context.ts";
import { labCoreEnvironment } from "../lab/core-environment.ts";
import { clientCertificateHeader, startLabEdge } from "../lab/core-process.ts";
import { enrollCollector } from "../lab/enroll-collector.ts";
import { createOperatorApi, createPolicyWithToken } from "../lab/operator-api.ts";
import { seedPeople, testTenantId } from "../lab/people.ts";
import {
  createProcesses,
  type Processes,
  type ProgramCommand,
  type Running,
} from "../lab/processes.ts";
import { untilOk, waitUntil } from "../lab/wait-until.ts";
import { findPorts } from "../ports.ts";
import { connectNodeDatabase } from "../postgres/connect-node-database.ts";
import { startEmbeddedPostgres } from "../postgres/embedded-postgres.ts";
import type { BuiltImage, ImageName } from "./build-images.ts";
import type { ContainerTools } from "./container-tools.ts";

/** What the smoke test found in one image. */
export interface SmokeReport {
  /** Of the program in the running container. */
  uid: number;
  /** The capabilities that it has, as the kernel's bit mask; "0" for none. */
  capabilities: string;
  /** Files and folders that it could write, besides its volumes. */
  writable: string[];
  /** Whether `/bin/sh` is missing. */
  no_shell: boolean;
  /** The exit codes of the image's health check: of the running program, and where none runs. */
  healthy: number;
  unhealthy: number;
  /** After SIGTERM. */
  exit_code: number | null;
  stop_seconds: number;
  ok: boolean;
}

/** The report on all three, and what passed through them. */
export interface SmokeReports {
  images: Record<ImageName, SmokeReport>;
  /** Envelopes that came through collector and core; whether chat may read the fleet, which needs the parser's wasm; web's pages. */
  stored: number;
  chat_sql: boolean;
  pages: Record<string, number>;
  ok: boolean;
}

type Images = Readonly<Record<ImageName, BuiltImage>>;

const imageUid = 1000;
/** Lower exit codes are those of the program in the container. */
const podmanError = 125;
/** What the kernel and podman mount into every container. */
const mounted = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"];

/** Runs the images; what it starts ends with `cleanup`. */
export const smokeTest = async (
  tools: ContainerTools,
  images: Images,
  context: LabContext,
  cleanup: AsyncDisposableStack,
): Promise<SmokeReports> => {
  const stage = await openStage(tools, images, context, cleanup);
  context.progress("starting core's image: it migrates a database");
  const core = await startCore(stage);
  context.progress("enrolling a collector in its image, which forwards one span");
  const collector = await startCollector(stage, core);
  context.progress("starting web's image");
  const web = await startWeb(stage, core);
  context.progress("stopping each with SIGTERM");
  const healthArgs = ["--config", collector.configFile];
  const reports = {
    web: await examine(stage, "web", web.running),
    collector: await examine(stage, "collector", collector.running, healthArgs),
    core: await examine(stage, "core", core.running),
  };
  const { stored } = collector;
  const { chat_sql } = core;
  const { pages } = web;
  const ok =
    Object.values(reports).every((report) => report.ok) &&
    stored > 0 &&
    chat_sql &&
    Object.values(pages).every((status) => status === 200);
  return { images: reports, stored, chat_sql, pages, ok };
};

/** The parts that the containers share. */
type Stage = Awaited<ReturnType<typeof openStage>>;

const openStage = async (
  tools: ContainerTools,
  images: Images,
  context: LabContext,
  cleanup: AsyncDisposableStack,
) => {
  const processes = await createProcesses(join(context.dir, "logs"), context.abort);
  cleanup.defer(() => processes.stopAll());
  const files = join(context.dir, "mounted");
  await mkdir(files);
  const postgres = await startEmbeddedPostgres({ tcp: true });
  cleanup.defer(() => postgres.stop("immediate"));
  const pki = await createLabPki({ dir: join(files, "lab") });
  await giveTo(files, imageUid);
  const authTokenSecret = context.entropy.bytes(32).toHex();
  const containers = createContainers(tools, { images, processes, files });
  return { context, cleanup, processes, files, postgres, pki, authTokenSecret, containers };
};

const startCore = async (stage: Stage) => {
  const { context, cleanup, processes, postgres, pki, authTokenSecret, containers } = stage;
  const [httpPort = 0, ingestPort = 0] = await findPorts(2, context.entropy);
  const databaseUrl = postgres.tcpUrl();
  const command = containers.command("core", {
    ...labCoreEnvironment({ databaseUrl, pki, authTokenSecret, httpPort, ingestPort }),
    SVC_TRUST_LOOPBACK_OPS: "true",
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: clientCertificateHeader,
    SVC_INFERENCE_CHAT_MODEL: "mock",
  });
  const running = processes.start({ ...command, name: "core" });
  const url = `http://127.0.0.1:${httpPort}`;
  await untilOk(context, "core is ready", [`${url}/readyz`, `${url}/readyz/ingest`]);
  const { db, sql, close } = connectNodeDatabase({
    url: postgres.url(),
    connectionsMax: 2,
  });
  cleanup.defer(close);
  await seedPeople(db, context.clock.now());
  const api = createOperatorApi(url, authTokenSecret);
  const chat = await api<InferOutput<typeof ChatStatus>>("auditor", "GET", "/v1/chat/status");
  const ingestEndpoint = `127.0.0.1:${ingestPort}`;
  return { running, url, ingestEndpoint, api, sql, chat_sql: chat.sql_tools.offered };
};

type StartedCore = Awaited<ReturnType<typeof startCore>>;

const startCollector = async (
  { context, cleanup, processes, files, pki, containers }: Stage,
  { url, ingestEndpoint, api, sql }: StartedCore,
) => {
  const edge = await startLabEdge(pki, { coreUrl: url });
  cleanup.defer(() => edge.close());
  const identityPrefix = "spiffe://fleet.example.test/host/";
  const policy = { name: "images", allowed_identity_prefixes: [identityPrefix] };
  const { token } = await createPolicyWithToken(api, policy, { ttl_seconds: 600, max_uses: 1 });
  const [otlpPort = 0] = await findPorts(1, context.entropy);
  const otlp = `127.0.0.1:${otlpPort}`;
  const dir = join(files, "host");
  await mkdir(dir);
  await giveTo(dir, imageUid);
  const collector = await enrollCollector(
    {
      name: "collector",
      dir,
      token,
      sources: [{ type: "otlp", http: { listen: otlp } }],
      command: containers.command("collector", {}),
      owner: imageUid,
    },
    { edgeUrl: edge.url, ingestEndpoint, pki, identityPrefix, processes },
  );
  const running = collector.start();
  const sender = createSpanSender("images", "http", otlp);
  sender.send("1");
  await sender.close();
  const stored = await waitUntil({ what: "the span is stored", ...context }, async () => {
    const [row] = await sql<
      { count: number }[]
    >`select coalesce(sum(envelopes), 0)::int as count from ingest_block`;
    return row?.count || undefined;
  });
  return { running, configFile: collector.configFile, stored };
};

const startWeb = async (
  { context, processes, postgres, authTokenSecret, containers }: Stage,
  core: StartedCore,
) => {
  const [port = 0] = await findPorts(1, context.entropy);
  const url = `http://127.0.0.1:${port}`;
  const command = containers.command("web", {
    PORT: String(port),
    WEBAUTH_URL: url,
    WEBAUTH_SECRET: context.entropy.bytes(32).toHex(),
    IDP_CLIENT_ID: "images",
    IDP_CLIENT_SECRET: "images",
    SVC_AUTH_TOKEN_SECRET: authTokenSecret,
    SVC_API_URL: `${core.url}/v1`,
    SVC_DATABASE_URL: postgres.tcpUrl(),
    SVC_TENANT_ID: testTenantId,
  });
  const running = processes.start({ ...command, name: "web" });
  await untilOk(context, "web is ready", [`${url}/readyz`]);
  const statuses = await Promise.all(["/login", "/fleet"].map((path) => statusOf(url, path)));
  return { running, pages: Object.fromEntries(statuses) };
};

/** Looks into the container of an image, and stops it. */
const examine = async (
  { context: { clock }, containers }: Stage,
  name: ImageName,
  running: Running,
  healthArgs: readonly string[] = [],
): Promise<SmokeReport> => {
  const found = await containers.examine(name, healthArgs);
  const startedAt = clock.monotonic();
  const exit_code = await running.stop();
  const stop_seconds = Math.round(clock.monotonic() - startedAt) / 1000;
  const ok =
    found.uid === imageUid &&
    /^0+$/.test(found.capabilities) &&
    found.writable.length === 0 &&
    found.no_shell &&
    found.healthy === 0 &&
    found.unhealthy > 0 &&
    found.unhealthy < podmanError &&
    exit_code === 0;
  return { ...found, exit_code, stop_seconds, ok };
};

const createContainers = (
  { env, podman }: ContainerTools,
  { images, processes, files }: { images: Images; processes: Processes; files: string },
) => {
  const confined = [
    "--rm",
    "--read-only",
    "--tmpfs",
    "/tmp",
    "--cap-drop",
    "all",
    "--security-opt",
    "no-new-privileges",
  ];
  const nameOf = (name: ImageName) => `svc-images-${name}`;
  const codeOf = async (args: readonly string[]): Promise<number> => {
    const { code } = await processes.run({ executable: "podman", args, env });
    return code ?? -1;
  };
  return {
    /** Returns the command that runs an image with this environment and the test's files. */
    command: (name: ImageName, variables: Readonly<Record<string, string>>): ProgramCommand => ({
      executable: "podman",
      args: [
        "run",
        ...confined,
        "--network",
        "host",
        "--replace",
        "--name",
        nameOf(name),
        "--volume",
        `${files}:${files}`,
        ...Object.entries(variables).flatMap(([key, value]) => ["--env", `${key}=${value}`]),
        images[name].reference,
      ],
      env,
    }),
    /** Looks into the running container of an image. */
    examine: async (name: ImageName, healthArgs: readonly string[]) => {
      const found = JSON.parse(await podman(["exec", nameOf(name), "node", "-e", examination])) as {
        uid: number;
        capabilities: string;
        writable: string[];
      };
      const { reference, healthCheck, volumes } = images[name];
      const [program = "", ...args] = healthCheck;
      return {
        ...found,
        writable: found.writable.filter(
          (path) => ![files, ...volumes].some((mount) => `${path}/`.startsWith(`${mount}/`)),
        ),
        no_shell:
          (await codeOf(["run", ...confined, "--entrypoint", "/bin/sh", reference, "-c", ":"])) !==
          0,
        healthy: await codeOf(["exec", nameOf(name), ...healthCheck, ...healthArgs]),
        // In a container of its own, whose port nothing listens on.
        unhealthy: await codeOf([
          "run",
          ...confined,
          "--network",
          "none",
          "--entrypoint",
          program,
          reference,
          ...args,
          ...healthArgs,
        ]),
      };
    },
  };
};

/** Runs in the container: prints who the first process is, and what the user of the image could write. */
const examination = `
const fs = require("node:fs");
const status = fs.readFileSync("/proc/1/status", "utf8");
const field = (name) => new RegExp("^" + name + ":\\\\s+(\\\\S+)", "m").exec(status)[1];
const skipped = new Set(${JSON.stringify(mounted)});
const writable = [];
const walk = (folder) => {
  for (const entry of fs.readdirSync(folder || "/", { withFileTypes: true })) {
    const path = folder + "/" + entry.name;
    if (skipped.has(path) || entry.isSymbolicLink()) continue;
    try { fs.accessSync(path, fs.constants.W_OK); writable.push(path); } catch {}
    if (entry.isDirectory()) try { walk(path); } catch {}
  }
};
walk("");
console.log(JSON.stringify({ uid: Number(field("Uid")), capabilities: field("CapEff"), writable }));`;

const statusOf = async (origin: string, path: string): Promise<[string, number]> => {
  const response = await fetch(origin + path, { headers: { Accept: "text/html" } });
  await response.body?.cancel();
  return [path, response.status];
};

/** Gives a folder and what is in it to a user. */
const giveTo = async (folder: string, uid: number): Promise<void> => {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    await lchown(join(entry.parentPath, entry.name), uid, uid);
  await lchown(folder, uid, uid);
};
