import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Sql } from "postgres";
import { openDatabaseSocket } from "../../functions/node/database-socket.ts";
import { connectDatabase } from "../../functions/store/database.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import { bundlePrograms } from "../bundle/bundle-programs.ts";
import { type CoreProcess, clientCertificateHeader, createCoreProcess } from "../lab/core-process.ts";
import { startDirectoryApi } from "../lab/directory-api.ts";
import { type Edge, startEdge } from "../lab/edge.ts";
import { type DemoCollector, type EnrollTarget, enrollCollector } from "../lab/enroll-collector.ts";
import { createOperatorApi, type OperatorApi, type UserIds } from "../lab/operator-api.ts";
import { findPorts, isListening } from "../lab/ports.ts";
import { createProcesses, type Processes } from "../lab/processes.ts";
import { waitUntil } from "../lab/wait-until.ts";
import { createLabPki, type LabPki } from "../lab-ca/pki.ts";
import { startEmbeddedPostgres } from "../postgres/embedded-postgres.ts";
import { identityPrefix } from "./health.ts";
import { awaitPeople } from "./sync-people.ts";
import { createLineWriter, type LineWriter } from "./write-lines.ts";

/** What the demo's parts share. */
export interface Surroundings {
  /** Private to the demo; whoever makes it removes it. */
  dir: string;
  clock: Clock;
  entropy: Entropy;
  /** Ends every wait. */
  signal: AbortSignal;
  /** Aborts it: the demo cannot go on. */
  abort(reason: Error): void;
  /** One line for people. */
  progress(line: string): void;
  /** Variables of core over the demo's own. */
  coreEnv?: Readonly<Record<string, string>>;
  /** Members of the policy beside the demo's own. */
  policy?: object;
  /** How many rotated files of lines are kept; all unless told. */
  renamedMax?: number;
  /** Answers that the edge throws away. */
  losesAnswer?: (path: string) => boolean;
}

/** Everything of the deployment that runs, on loopback alone. */
export interface World {
  lab: LabPki;
  authTokenSecret: string;
  /** The people of the demo as core knows them since it synced the directory. */
  userIds: UserIds;
  sql: Sql;
  databaseUrl: string;
  processes: Processes;
  core: CoreProcess;
  edge: Edge;
  api: OperatorApi;
  /** `shop` and `cart` take OTLP, `web` tails the files of `lines`; all run. */
  collectors: { shop: DemoCollector; cart: DemoCollector; web: DemoCollector };
  /** Where `shop` and `cart` listen. */
  otlp: { shopGrpc: string; shopHttp: string; cartHttp: string };
  lines: LineWriter;
}

/**
 * Starts PostgreSQL (durable), lab CA, directory, core, edge and three collectors, which enroll through the edge with a token of a policy
 * that an admin makes over the API. What is started is put on `cleanup` at once, so that a failure half-way leaves nothing.
 */
export const startWorld = async (surroundings: Surroundings, cleanup: AsyncDisposableStack): Promise<World> => {
  const { dir, clock, entropy, signal, progress } = surroundings;
  signal.throwIfAborted();
  progress("PostgreSQL with fsync, a lab CA, a directory; the programs are bundled");
  const bundled = bundlePrograms(signal);
  // It is awaited below, where a failure counts.
  bundled.catch(() => undefined);
  const postgres = await startEmbeddedPostgres();
  cleanup.defer(() => postgres.stop("immediate"));
  await bundled;
  signal.throwIfAborted();
  const directory = await startDirectoryApi();
  cleanup.defer(() => directory.close());
  const lab = await createLabPki({ dir: join(dir, "lab"), clock });
  const processes = await createProcesses(join(dir, "logs"), surroundings.abort);
  cleanup.defer(() => processes.stopAll());

  const authTokenSecret = entropy.bytes(32).toHex();
  const [httpPort, ingestPort, grpcPort, shopPort, cartPort, edgePort] = (await findPorts(6, entropy)) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const databaseUrl = postgres.url();
  const core = await createCoreProcess(
    {
      ...{ dir, databaseUrl, lab, authTokenSecret, httpPort, ingestPort },
      directory: { url: directory.url, keyFile: await directory.writeKeyFile(dir) },
      env: surroundings.coreEnv ?? {},
    },
    { ...surroundings, processes },
  );
  progress("core: migrates the database, listens, and syncs people from the directory");
  core.start();
  const edge = await startLabEdge(lab, core, { port: edgePort, ...surroundings });
  cleanup.defer(() => edge.close());
  await core.ready();
  const database = connectDatabase({ url: databaseUrl, connectionsMax: 2, openSocket: openDatabaseSocket });
  cleanup.defer(() => database.close());
  const userIds = await awaitPeople(database.sql, surroundings);
  const api = createOperatorApi(core.httpUrl, authTokenSecret, userIds);

  progress("a policy and a token, and three hosts that enroll through the edge");
  const token = await createToken(api, surroundings.policy);
  const target = {
    coreUrl: edge.url,
    ingestEndpoint: core.ingestEndpoint,
    caFile: lab.serverCaFile,
    identityPrefix,
  };
  const otlp = {
    shopGrpc: `127.0.0.1:${grpcPort}`,
    shopHttp: `127.0.0.1:${shopPort}`,
    cartHttp: `127.0.0.1:${cartPort}`,
  };
  const lines = await createLineWriter(join(dir, "app"), surroundings.renamedMax);
  const collectors = await startCollectors({ dir, token, target, otlp, lines, processes });
  const applications = async () =>
    (await Promise.all(Object.values(otlp).map(isListening))).every(Boolean) || undefined;
  await waitUntil({ what: "the collectors take OTLP", ...surroundings }, applications);
  const { sql } = database;
  return { lab, authTokenSecret, userIds, sql, databaseUrl, processes, core, edge, api, collectors, otlp, lines };
};

const startLabEdge = async (
  lab: LabPki,
  core: CoreProcess,
  { port, losesAnswer }: Pick<Surroundings, "losesAnswer"> & { port: number },
): Promise<Edge> =>
  startEdge({
    certPem: await readFile(lab.edge.certFile, "utf8"),
    keyPem: await readFile(lab.edge.keyFile, "utf8"),
    clientCaPem: await readFile(lab.enrollmentCa.certFile, "utf8"),
    coreUrl: core.httpUrl,
    clientCertificateHeader,
    port,
    ...(losesAnswer === undefined ? {} : { losesAnswer }),
  });

const createToken = async (api: OperatorApi, more: object = {}): Promise<string> => {
  const policy = await api<{ id: string }>("admin", "POST", "/v1/collector/enrollment-policies", {
    name: "demo hosts",
    allowed_identity_prefixes: [identityPrefix],
    max_enrollments: 3,
    ...more,
  });
  const { token } = await api<{ token: string }>(
    "admin",
    "POST",
    `/v1/collector/enrollment-policies/${policy.id}/tokens`,
    { ttl_seconds: 600, max_uses: 3 },
  );
  return token;
};

const startCollectors = async (options: {
  dir: string;
  token: string;
  target: EnrollTarget;
  otlp: World["otlp"];
  lines: LineWriter;
  processes: Processes;
}): Promise<World["collectors"]> => {
  const { dir, token, target, otlp, lines, processes } = options;
  await mkdir(join(dir, "hosts"));
  const enroll = (name: string, source: object) =>
    enrollCollector({ name, dir: join(dir, "hosts", name), token, target, sources: [source] }, processes);
  const [shop, cart, web] = await Promise.all([
    enroll("shop", { type: "otlp", grpc: { listen: otlp.shopGrpc }, http: { listen: otlp.shopHttp } }),
    enroll("cart", { type: "otlp", http: { listen: otlp.cartHttp } }),
    enroll("web", { type: "file", include: [lines.include], start_at: "beginning" }),
  ]);
  for (const collector of [shop, cart, web]) collector.start();
  return { shop, cart, web };
};
