import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { findPorts, isListening } from "../ports.ts";
import type { LabContext } from "./context.ts";
import { startLabEdge } from "./core-process.ts";
import type { Edge } from "./edge.ts";
import { type EnrolledCollector, enrollCollector } from "./enroll-collector.ts";
import { type LabCore, startLabCore } from "./lab-core.ts";
import { createLineWriter, type LineWriter } from "./line-writer.ts";
import { createPolicyWithToken } from "./operator-api.ts";
import { waitUntil } from "./wait-until.ts";

/** Core, its database and directory, a TLS edge and three collectors, all running on loopback. */
export interface Deployment extends LabCore {
  edge: Edge;
  /** `shop` and `cart` receive OTLP, `web` tails the files of `lines`. */
  collectors: Record<"shop" | "cart" | "web", EnrolledCollector>;
  /** The addresses on which `shop` and `cart` listen. */
  otlp: { shopGrpc: string; shopHttp: string; cartHttp: string };
  lines: LineWriter;
  /** Returns the rows of these three collectors in the fleet health report, ordered by identity. */
  readHealth(): Promise<FleetHealthRow[]>;
}

/** The options of a deployment. */
export interface DeploymentOptions {
  /** Variables of core over the usual ones. */
  env?: Readonly<Record<string, string>>;
  /** Members of the enrollment policy over the usual ones. */
  policy?: object;
  /** How many rotated files of lines are kept; all by default. */
  rotatedMax?: number;
}

/** The collectors' identities begin with this. */
const identityPrefix = "spiffe://fleet.example.test/host/";

/**
 * Starts a deployment. The collectors enroll through the edge, with a token that an admin creates over the API. Registers each started
 * part with `cleanup` at once, so that a later failure stops it.
 */
export const startDeployment = async (
  { env = {}, policy = {}, rotatedMax }: DeploymentOptions,
  context: LabContext,
  cleanup: AsyncDisposableStack,
): Promise<Deployment> => {
  const { dir, entropy, clock, signal } = context;
  const core = await startLabCore({ env, directory: true }, context, cleanup);
  const { pki, api } = core;
  const [edgePort = 0, ...otlpPorts] = await findPorts(4, entropy);
  const edge = await startLabEdge(pki, { coreUrl: core.httpUrl, port: edgePort });
  cleanup.defer(() => edge.close());

  context.progress("enrolling three hosts through the edge");
  const labels = { env: "demo", region: "loopback" };
  const usual = {
    name: "demo hosts",
    allowed_identity_prefixes: [identityPrefix],
    max_enrollments: 3,
    labels,
  };
  const { token } = await createPolicyWithToken(
    api,
    { ...usual, ...policy },
    { ttl_seconds: 600, max_uses: 3 },
  );
  const [shopGrpc = "", shopHttp = "", cartHttp = ""] = otlpPorts.map(
    (port) => `127.0.0.1:${port}`,
  );
  const lines = await createLineWriter(join(dir, "app"), rotatedMax);
  await mkdir(join(dir, "hosts"));
  const start = async (name: string, source: object): Promise<EnrolledCollector> => {
    const own = { team: name === "web" ? "storefront" : "payments" };
    const host = { name, dir: join(dir, "hosts", name), token, sources: [source], labels: own };
    const collector = await enrollCollector(host, { ...core, edgeUrl: edge.url, identityPrefix });
    collector.start();
    return collector;
  };
  const [shop, cart, web] = await Promise.all([
    start("shop", { type: "otlp", grpc: { listen: shopGrpc }, http: { listen: shopHttp } }),
    start("cart", { type: "otlp", http: { listen: cartHttp } }),
    start("web", { type: "file", include: [lines.include], start_at: "beginning" }),
  ]);
  const otlp = { shopGrpc, shopHttp, cartHttp };
  await waitUntil(
    { what: "the collectors listen for OTLP", clock, signal },
    async () =>
      (await Promise.all(Object.values(otlp).map(isListening))).every(Boolean) || undefined,
  );
  const readHealth = async () => {
    const query = new URLSearchParams({ q: identityPrefix });
    return (
      await api<{ items: FleetHealthRow[] }>("auditor", "GET", `/v1/collector/health?${query}`)
    ).items;
  };
  return { ...core, edge, collectors: { shop, cart, web }, otlp, lines, readHealth };
};
