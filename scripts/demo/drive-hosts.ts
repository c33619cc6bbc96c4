/**
 * The simulated part of the demo's fleet: real keys, certificates, proofs and frames, sent by this process. A timeline of some seconds
 * brings each host to the state of its role; ages that a real fleet reaches in weeks are then backdated in the demo's own database.
 */
import { readFile } from "node:fs/promises";
import packageJson from "#package.json" with { type: "json" };
import { type DrivenFleet, driveFleet } from "../fleet-sim/drive/drive-fleet.ts";
import { createNodeWire } from "../fleet-sim/drive/node-wire.ts";
import type { Host } from "../fleet-sim/scenario/hosts.ts";
import { createRandom, type Random } from "../fleet-sim/scenario/random.ts";
import type { LabContext } from "../lab/context.ts";
import { clientCertificateHeader } from "../lab/core-process.ts";
import type { LabCore } from "../lab/lab-core.ts";
import { bridgeTokenOf } from "../lab/operator-api.ts";
import { type Age, backdate } from "./backdate.ts";

/** The oldest release that the demo's core supports. */
export const versionMin = "0.0.10";

const versions = {
  usual: [
    [packageJson.version, 58],
    ["0.0.12", 17],
    ["0.0.11", 15],
    ["0.0.10", 7],
    ["0.2.0-rc.1", 3],
  ],
  old: ["0.0.9", "0.0.7"],
  odd: "0.2.0.dev3",
} as const;

const seed = 7;
const forwardEveryMs = 60_000;

/** Enrolls `hosts` hosts, simulates them for some seconds, then backdates them. The wire ends with `cleanup`. */
export const driveHosts = async (
  { httpUrl, ingestEndpoint, pki, sql, authTokenSecret, userIds }: LabCore,
  { clock, signal, progress }: LabContext,
  { hosts, seconds, cleanup }: { hosts: number; seconds: number; cleanup: AsyncDisposableStack },
): Promise<DrivenFleet> => {
  const wire = createNodeWire({
    api: { url: httpUrl, caPem: undefined },
    management: { header: clientCertificateHeader },
    ingest: { url: `https://${ingestEndpoint}`, caPem: await readFile(pki.serverCaFile, "utf8") },
    connectionsMax: 16,
  });
  cleanup.defer(() => wire.close());
  const fleet = await driveFleet({
    scenario: "fleet-100",
    seed,
    hosts,
    durationSeconds: seconds,
    datedBack: { intervalSeconds: Math.floor(seconds / 5) },
    versions,
    run: "demo",
    // Sorted after the real ones.
    identityPrefix: "spiffe://fleet.example.test/simulated/",
    wire,
    forwardEveryMs,
    operatorToken: () => bridgeTokenOf(authTokenSecret, "admin", userIds),
    bootstrap: null,
    clock,
    concurrency: 16,
    withDatabase: null,
    signal,
    progress: () => undefined,
  });
  signal.throwIfAborted();
  const ages = agesOf(fleet.hosts);
  await backdate(sql, ages);
  progress(
    `backdated in the demo's own database, as a fleet takes weeks for it: enrollments, certificates and last heartbeats of ${ages.length} simulated hosts`,
  );
  return fleet;
};

const agesOf = (hosts: readonly Host[]): Age[] => {
  // The first ones are down for longer than their certificates lived.
  const expired = hosts
    .filter(({ role }) => role === "down")
    .slice(0, Math.ceil(hosts.length / 150));
  return hosts
    .filter(({ role }) => role !== "enrolling")
    .map((host) => ageOf(host, expired.includes(host), createRandom(seed, "age", host.index)));
};

const hour = 3600;
const day = 24 * hour;

/** Certificates are valid for 21 days; hosts renew them in the middle unless a fault prevents it. */
const ageOf = ({ identity, role }: Host, isExpired: boolean, random: Random): Age => {
  const within = (from: number, to: number) => from + (to - from) * random.fraction();
  const usual = { certificateDays: within(0.2, 10.3), silentSeconds: 0 };
  const own = ((): Partial<typeof usual> => {
    // Down since before its renewal was due.
    if (isExpired)
      return { certificateDays: within(21.3, 23), silentSeconds: within(13, 20) * day };
    switch (role) {
      case "down":
        return {
          certificateDays: within(3.5, 10.3),
          silentSeconds: 300 * 900 ** random.fraction(),
        };
      case "clock_far":
        return { silentSeconds: within(0.5 * hour, 3 * hour) };
      case "cert_expiring":
        return { certificateDays: within(16.5, 20.5) };
      case "renewal_refused":
        return { certificateDays: within(17.6, 20) };
      case "renewing":
      case "successor_waiting":
        return { certificateDays: within(10.5, 11.5) };
      default:
        return {};
    }
  })();
  const { certificateDays, silentSeconds } = { ...usual, ...own };
  const renewals = random.between(0, 8);
  return {
    identity,
    enrolledDays: certificateDays + 10.5 * renewals,
    certificateDays,
    keepsSuccessor: role === "renewing" || role === "successor_waiting",
    silentSeconds,
  };
};
