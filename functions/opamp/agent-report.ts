/**
 * The report of an agent's host, in the form of a heartbeat of our own collector (docs/fleet-health.md). An agent has no queue and no
 * renewal of ours: these say nothing. What it writes about itself is cut to what a report may hold, so that no text of it is refused.
 */
import * as v from "valibot";
import type { KeyValue } from "#proto/gen/opamp/v1/anyvalue_pb.js";
import type { AgentToServer, ComponentHealth } from "#proto/gen/opamp/v1/opamp_pb.js";
import { isLabelKey, isLabelValue, type Labels, labelsMax } from "#proto/labels.ts";
import {
  componentUnhealthy,
  type HostReport,
  type ReportedCondition,
} from "#proto/management/heartbeat.ts";
import { cutText, Identifier, Platform } from "#proto/values.ts";

/** The most unhealthy components that a report names. */
const conditionsMax = 20;

/** Returns the report of a host by the merged status of its agent, with the part about configs that core has decided. */
export const agentReport = (status: AgentToServer, config: HostReport["config"]): HostReport => {
  const { health, instanceUid } = status;
  const attribute = attributesOf(status);
  const startedAt = timeOf(health?.startTimeUnixNano ?? 0n);
  return {
    boot_id: `${instanceUid.toHex()}-${Date.parse(startedAt)}`,
    agent_name: nameOf(attribute.get("service.name"), 64),
    collector: {
      version: nameOf(attribute.get("service.version"), 64),
      commit: unknown,
      hostname: nameOf(attribute.get("host.name"), 253),
      platform: platformOf(attribute),
      started_at: startedAt,
    },
    config,
    queue: noQueue,
    forwarder: { connected: true, last_ack_at: null, last_error: null },
    renewal: noRenewal,
    conditions: unhealthyComponents(health),
    labels: labelsOf(status),
  };
};

/** Returns why an agent is unhealthy; undefined if it is healthy, is starting, or reports no health. */
export const unhealthyReason = (health: ComponentHealth | undefined): string | undefined => {
  const [first] = unhealthyComponents(health);
  return first && (first.path === undefined ? first.reason : `${first.path}: ${first.reason}`);
};

/** The last error of an opampsupervisor that is stopped. */
const stoppedSupervisor = "Supervisor is shutdown";

/** Reports whether the health of an agent names an error; one that starts or stops is unhealthy without any. */
export const namesError = ({ lastError, status, componentHealthMap }: ComponentHealth): boolean =>
  (lastError !== "" && lastError !== stoppedSupervisor) ||
  status.endsWith("Error") ||
  Object.values(componentHealthMap).some(namesError);

const unknown = "unknown";

const noQueue: HostReport["queue"] = {
  records: 0,
  bytes: 0,
  max_bytes: 0,
  oldest_record_age_seconds: null,
  dropped_records_total: 0,
  dead_letters: 0,
  forks_total: 0,
  file_gaps_total: 0,
  file_gap_bytes_total: 0,
  at_risk: false,
};

const noRenewal: HostReport["renewal"] = {
  status: "not_configured",
  last_attempt_at: null,
  next_attempt_at: null,
  last_error: null,
};

/** The texts among the attributes of an agent; those that identify it win. */
const attributesOf = ({ agentDescription }: AgentToServer): ReadonlyMap<string, string> =>
  new Map(
    [
      ...(agentDescription?.nonIdentifyingAttributes ?? []),
      ...(agentDescription?.identifyingAttributes ?? []),
    ].flatMap(textOf),
  );

const textOf = ({ key, value }: KeyValue): [string, string][] =>
  value?.value.case === "stringValue" ? [[key, value.value.value]] : [];

const nameOf = (text = "", charactersMax: number): string => {
  const cut = cutText(text, charactersMax);
  return v.is(Identifier(charactersMax), cut) ? cut : unknown;
};

const platformOf = (attribute: ReadonlyMap<string, string>): string => {
  const part = (name: string) => attribute.get(name) ?? unknown;
  const platform = `${part("os.type")}/${part("host.arch")}`.toLowerCase();
  return v.is(Platform, platform) ? platform : `${unknown}/${unknown}`;
};

/** Attributes that the conventions of OpenTelemetry define describe the host; they are no labels. */
const ofStandard = /^(?:service|host|os|process|telemetry)\./;

const labelsOf = ({ agentDescription }: AgentToServer): Labels =>
  Object.fromEntries(
    (agentDescription?.nonIdentifyingAttributes ?? [])
      .flatMap(textOf)
      .filter(([key, text]) => isLabelKey(key) && isLabelValue(text) && !ofStandard.test(key))
      .slice(0, labelsMax),
  );

/** The end of what a timestamp can hold. */
const lastMs = Date.UTC(9999, 11, 31);

const timeOf = (unixNano: bigint): string =>
  new Date(Math.min(Number(unixNano / 1_000_000n), lastMs)).toISOString();

/** A component that starts, and one that has not started, is not unhealthy yet. */
const isStarting = ({ lastError, status, startTimeUnixNano }: ComponentHealth): boolean =>
  lastError === "" && (status === "StatusStarting" || (status === "" && startTimeUnixNano === 0n));

/** Returns the innermost components that are unhealthy, in the order of their paths. */
const unhealthyComponents = (health: ComponentHealth | undefined): ReportedCondition[] => {
  const found: ReportedCondition[] = [];
  const visit = (each: ComponentHealth, path: string, since: string) => {
    if (each.healthy || isStarting(each) || found.length === conditionsMax) return;
    const own = each.statusTimeUnixNano === 0n ? since : timeOf(each.statusTimeUnixNano);
    const before = found.length;
    const components = Object.entries(each.componentHealthMap).toSorted(([a], [b]) =>
      a < b ? -1 : 1,
    );
    for (const [name, component] of components)
      visit(component, path === "" ? name : `${path}/${name}`, own);
    if (found.length > before) return;
    const reason = [each.status, each.lastError].filter((text) => text !== "").join(": ");
    found.push({
      code: componentUnhealthy,
      since: own,
      reason: textForPeople(reason || "it reports no reason"),
      ...(path === "" ? {} : { path: textForPeople(path) }),
    });
  };
  if (health) visit(health, "", timeOf(health.startTimeUnixNano));
  return found;
};

const textForPeople = (text: string): string => cutText(text.toWellFormed(), 500);
