import { dayMs } from "#kit/clock.ts";
import { singleFlight } from "#kit/group-calls.ts";
import { type HourState, hourStates } from "#proto/completeness/hour-state.ts";
import { fleetStates, inventoryStatuses } from "#proto/fleet-health/vocabulary.ts";
import { endedStates, rolloutStates } from "#proto/rollout/vocabulary.ts";
import { watchStates } from "#proto/watch/vocabulary.ts";
import type { Core } from "../core.ts";
import { parseFilter } from "../domain/fleet/parse-filter.ts";
import { readFleetRules } from "../domain/fleet/rules.ts";
import { countAgainstFleet } from "../domain/inventory/inventory.ts";
import { browseBudgets } from "../domain/volume/budgets.ts";
import { findHourCounts } from "../store/completeness/report.ts";
import { type ExportLag, findExportLags } from "../store/export/lag.ts";
import { countHosts, summarizeFleet } from "../store/fleet/summary.ts";
import { findRetentionPause } from "../store/retention/retention-pause.ts";
import { countOpenRollouts } from "../store/rollout/rollouts.ts";
import { countWatches, findOldestEvaluation, findWaitingMessages } from "../store/watch/watches.ts";
import { type Check, runChecks } from "./readiness.ts";

/** A figure that is read at each scrape instead of counted as events happen. */
export interface Figure {
  name: `core_${string}`;
  help: string;
  labels: readonly string[];
  /** Returns its samples. If it throws, the figure is missing in that scrape. */
  read(): Promise<readonly Sample[]> | readonly Sample[];
}

/** One value of a figure, with a value for each of its labels. */
interface Sample {
  labels: Readonly<Record<string, string>>;
  value: number;
}

/** A certificate that core uses: the authority that signs, and the first of the ingest listener's chain to expire. */
export interface OwnCertificate {
  name: "enrollment_ca" | "ingest_server";
  /** Milliseconds since the epoch. */
  notAfter: number;
}

/** A query of `/fleet`, so that an operator sees which hosts they are (docs/alerts.md#svcingeststopped). */
const waitingHosts = "heartbeat:recent queue>0% -forwarding:forwarding -budget:held";

/** Returns the figures that alerts and the dashboard need (docs/alerts.md): readiness, own certificates, hosts, rollouts. */
export const figuresOf = (
  core: Pick<Core, "db" | "reports" | "clock" | "config" | "log">,
  sources: {
    checks: Readonly<Record<string, readonly Check[]>>;
    certificates(): readonly OwnCertificate[];
  },
): readonly Figure[] => [
  {
    name: "core_check_ready",
    help: "1 for a readiness check that is ready, else 0",
    labels: ["endpoint", "check"],
    read: async () =>
      (await Promise.all(Object.entries(sources.checks).map(readChecks(core)))).flat(),
  },
  {
    name: "core_certificate_expiry_timestamp_seconds",
    help: "when `enrollment_ca` and `ingest_server` expire",
    labels: ["certificate"],
    read: () =>
      sources
        .certificates()
        .map(({ name, notAfter }) => sample({ certificate: name }, notAfter / 1000)),
  },
  {
    name: "core_rollouts",
    help: "rollouts that have not ended",
    labels: ["state"],
    read: async () => {
      const counts = await countOpenRollouts(core.reports);
      const open = rolloutStates.filter((state) => !endedStates.includes(state));
      return open.map((state) => sample({ state }, counts.get(state) ?? 0));
    },
  },
  {
    name: "core_retention_paused",
    help: "1 while a clock's jump pauses retention",
    labels: [],
    read: async () => [sample({}, (await findRetentionPause(core.reports)) === null ? 0 : 1)],
  },
  ...hostFiguresOf(core),
  ...exportFiguresOf(core),
  ...watchFiguresOf(core),
];

/** Returns the numbers of hosts as the pages show them. */
const hostFiguresOf = (core: Pick<Core, "db" | "reports" | "clock" | "config">): Figure[] => [
  {
    name: "core_hosts",
    help: "hosts by state, as on `/fleet`",
    labels: ["state"],
    read: async () => {
      const { byState } = await summarizeFleet(
        core.reports,
        await readFleetRules({ ...core, db: core.reports }),
        {},
      );
      return fleetStates.map((state) => sample({ state }, byState.get(state) ?? 0));
    },
  },
  {
    name: "core_waiting_hosts",
    help: "hosts whose records wait",
    labels: [],
    read: async () => {
      const rules = await readFleetRules({ ...core, db: core.reports });
      const filter = parseFilter(waitingHosts, core.clock.now());
      return [sample({}, await countHosts(core.reports, rules, [filter]))];
    },
  },
  {
    name: "core_completeness_states",
    help: "hours of hosts in the last day, as on `/completeness`",
    labels: ["state"],
    read: async () => {
      const toMs = core.clock.now();
      const hours = await findHourCounts(core.reports, { fromMs: toMs - dayMs, toMs });
      const hostsIn = (state: HourState) =>
        hours.reduce((sum, { hosts }) => sum + (hosts.get(state) ?? 0), 0);
      return hourStates.map((state) => sample({ state }, hostsIn(state)));
    },
  },
  {
    name: "core_inventory_hosts",
    help: "hosts by status of the inventory, if there is one",
    labels: ["status"],
    read: async () => {
      const counts = await countAgainstFleet({ ...core, db: core.reports });
      return counts === null
        ? []
        : inventoryStatuses.map((status) => sample({ status }, counts[status]));
    },
  },
  {
    name: "core_held_hosts",
    help: "hosts that each budget holds, as `budget:held`",
    labels: ["budget"],
    read: async () => {
      const budgets = await browseBudgets({ ...core, db: core.reports });
      return budgets.map(({ name, heldHosts }) => sample({ budget: name }, heldHosts));
    },
  },
];

/** Watches and their messages (docs/watches.md). */
const watchFiguresOf = ({ reports, clock }: Pick<Core, "reports" | "clock">): Figure[] => {
  const readWaiting = singleFlight(() => findWaitingMessages(reports));
  const secondsSince = (at: Date) => Math.max(0, (clock.now() - at.getTime()) / 1000);
  return [
    {
      name: "core_watches",
      help: "watches, by state",
      labels: ["state"],
      read: async () => {
        const counts = await countWatches(reports);
        return watchStates.map((state) => sample({ state }, counts.get(state) ?? 0));
      },
    },
    {
      name: "core_watch_evaluation_age_seconds",
      help: "since when a watch was not evaluated",
      labels: [],
      read: async () => {
        const at = await findOldestEvaluation(reports);
        return at === null ? [] : [sample({}, secondsSince(at))];
      },
    },
    {
      name: "core_watch_messages_waiting",
      help: "messages of watches that a receiver does not have yet",
      labels: ["receiver"],
      read: async () =>
        (await readWaiting()).map(({ receiver, messages }) => sample({ receiver }, messages)),
    },
    {
      name: "core_watch_message_age_seconds",
      help: "age of the oldest message that a receiver does not have yet",
      labels: ["receiver"],
      read: async () =>
        (await readWaiting()).map(({ receiver, oldestAt }) =>
          sample({ receiver }, secondsSince(oldestAt)),
        ),
    },
  ];
};

/** Returns how far exports are behind (docs/export.md); without samples if nothing is exported. Reads once for each scrape. */
const exportFiguresOf = ({ reports }: Pick<Core, "reports">): Figure[] => {
  const lags = singleFlight(() => findExportLags(reports));
  const figure = (name: string, help: string, read: (lag: ExportLag) => number): Figure => ({
    name: `core_export_${name}`,
    help,
    labels: ["export"],
    read: async () => (await lags()).map((lag) => sample({ export: lag.name }, read(lag))),
  });
  return [
    figure("lag_seconds", "how far an export is behind", ({ ageSeconds }) => ageSeconds),
    figure(
      "lag_envelopes",
      "envelopes that an export has not sent; estimated above 100,000",
      (lag) => lag.envelopes,
    ),
    figure(
      "unaccounted_envelopes",
      "stored envelopes that an export has passed over",
      (lag) => lag.unaccounted,
    ),
    figure(
      "dead_letters",
      "envelopes that the backend of an export rejected",
      (lag) => lag.deadLetters,
    ),
    figure("running", "1 while a process exports", ({ isRunning }) => (isRunning ? 1 : 0)),
  ];
};

const sample = (labels: Sample["labels"], value: number): Sample => ({ labels, value });

const readChecks =
  (tools: Pick<Core, "clock" | "log">) =>
  async ([endpoint, checks]: [string, readonly Check[]]): Promise<Sample[]> => {
    const report = await runChecks(checks, tools);
    return report.checks
      .filter(({ status }) => status !== "disabled")
      .map(({ name, status }) => sample({ endpoint, check: name }, status === "ready" ? 1 : 0));
  };
