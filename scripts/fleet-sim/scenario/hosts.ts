import { composeIdentity } from "#proto/identity.ts";
import type { Labels } from "#proto/labels.ts";
import type { AgentKind } from "#proto/values.ts";
import type { Plan } from "./plan.ts";
import { createRandom } from "./random.ts";
import { assignRoles, type Role } from "./scenarios.ts";

/** A host of the fleet, as it enrolls. */
export interface Host {
  index: number;
  role: Role;
  deviceId: string;
  identity: string;
  hostname: string;
  platform: string;
  version: string;
  agent: AgentKind;
  /** As its config names them. */
  labels: Labels;
  /** Whether an admin assigns its config. Of the others some report a desired hash of their own. */
  management: "assigned" | "own_desired" | "none";
}

const sites = ["ams2", "fra1", "iad3", "sin1", "sjc2"] as const;
const services = ["api", "batch", "cache", "db", "edge", "web"] as const;
const platforms = [
  ["linux/amd64", 70],
  ["linux/arm64", 18],
  ["windows/amd64", 8],
  ["darwin/arm64", 4],
] as const;

const environments = [
  ["prod", 70],
  ["staging", 20],
  ["dev", 10],
] as const;
const teams = {
  api: "platform",
  batch: "data",
  cache: "platform",
  db: "data",
  edge: "network",
  web: "storefront",
} as const satisfies Record<(typeof services)[number], string>;

/** The roles that an agent can have which speaks OpAMP; the others need the queue, the proofs or the config of our own. */
const opampRoles: ReadonlySet<Role> = new Set(["steady", "down", "enrolling", "identity_revoked"]);
/** The roles of such agents alone. */
const agentRoles: ReadonlySet<Role> = new Set([
  "agent_rolled_back",
  "agent_config_failed",
  "component_unhealthy",
]);

const needDesired: ReadonlySet<Role> = new Set([
  "rolled_back",
  "drifted",
  "config_broken",
  "config_unreadable",
  "agent_rolled_back",
  "agent_config_failed",
]);

/** Creates the hosts of a plan, in the order of their indexes. */
export const createHosts = (plan: Plan): Host[] =>
  assignRoles(plan.scenario, plan.hosts, plan.seed).map((role, index) =>
    createHost(plan, isPlayable(plan, role) ? role : "steady", index),
  );

/** Creates the host of an index in a role. */
export const createHost = (plan: Plan, role: Role, index: number): Host => {
  const random = createRandom(plan.seed, "host", index);
  const site = random.pick(sites);
  const service = random.pick(services);
  const deviceId = `${site}-${service}-${String(index + 1).padStart(4, "0")}`;
  const isOpamp =
    agentRoles.has(role) ||
    (opampRoles.has(role) && (index % 5 === 2 || plan.scenario === "agents"));
  return {
    index,
    role,
    deviceId,
    identity: composeIdentity(plan.identityPrefix, deviceId),
    hostname: `${deviceId}.example.test`,
    platform: random.weighted(platforms),
    version: isOpamp
      ? opampVersion
      : versionOf(plan, role, random.weighted(plan.versions.usual), index),
    agent: isOpamp ? "otelcol" : "svc-collector",
    labels: {
      env: createRandom(plan.seed, "labels", index).weighted(environments),
      region: site,
      team: teams[service],
    },
    management: managementOf(plan, role, index, isOpamp),
  };
};

const opampVersion = "0.149.0";

const managementOf = (
  { hasOperator }: Plan,
  role: Role,
  index: number,
  isOpamp: boolean,
): Host["management"] => {
  if (index % 12 === 5 && !needDesired.has(role)) return "none";
  // Core would take its fault for one of a config that it has just applied.
  if (role === "component_unhealthy") return "none";
  // An agent that speaks OpAMP has no desired config of its own.
  if (isOpamp) return hasOperator ? "assigned" : "none";
  return index % 14 === 3 || !hasOperator ? "own_desired" : "assigned";
};

const versionOf = (
  { versions: { old, odd } }: Plan,
  role: Role,
  usual: string,
  index: number,
): string => {
  if (role === "old_version") return index % 2 === 0 ? old[0] : old[1];
  return role === "odd_version" ? odd : usual;
};

const silentMs = 20 * 60_000;

/** How long core observes a config, and two heartbeats that are late. */
const provenMs = ({ heartbeatIntervalSeconds, beat }: Plan): number =>
  Math.max(60_000, 2_000 * heartbeatIntervalSeconds) + 2.2 * beat;

/** Reports whether a history has what a role needs: an operator, or the time until a certificate or a threshold expires. */
const isPlayable = (plan: Plan, role: Role): boolean => {
  const ageMax = plan.past + plan.endsAt - plan.startsAt;
  const lifetime = plan.ttlSeconds.short * 1000;
  switch (role) {
    case "identity_revoked":
    case "certificate_revoked":
    case "agent_config_failed":
      return plan.hasOperator;
    case "agent_rolled_back":
      // Its first config becomes the last known good one before the second is assigned.
      return plan.hasOperator && 0.4 * (plan.endsAt - plan.startsAt) >= provenMs(plan);
    case "expired":
      return ageMax >= 1.1 * lifetime;
    case "cert_expiring":
      return plan.isDatedBack || ageMax >= 0.83 * lifetime;
    case "forwards_only":
      return plan.forwards && (plan.isDatedBack || ageMax >= silentMs);
    case "silent":
      return plan.isDatedBack || ageMax >= silentMs;
    default:
      return true;
  }
};
