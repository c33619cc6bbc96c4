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
import type { ReportedCredential } from "../store/system/system.ts";
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

/** A query of `/fleet`, so that an operator sees which hosts they are (docs/alerts.md#svcingeststopped). */
const waitingHosts = "heartbeat:recent queue>0% -forwarding:forwarding -budget:held";

type FiguredCore = Pick<Core, "db" | "reports" | "clock" | "config" | "log">;

/** Returns the figures that alerts and the dashboard need (docs/alerts.md): readiness, own certificates, hosts, rollouts. */
export const figuresOf = (
  core: FiguredCore,
  sources: {
    checks: Readonly<Record<string, readonly Check[]>>;
    credentials(): readonly Pick<ReportedCredential, "name" | "endsAt">[];
  },
): readonly Figure[] => [
  {
    name: "core_check_ready",
    help: "1 for a readiness check that is ready, else 0",
    labels: ["endpoint", "check"],
    read: async () =>
      (await Promise.all(Object.entries(sources.checks).map(readChecks(core)))).flat(),
  },
  figureBy(
    "certificate",
    "core_certificate_expiry_timestamp_seconds",
    "when certificates, license and tokens of this core end",
    () =>
      sources
        .credentials()
        .flatMap(({ name, endsAt }) =>
          endsAt === null ? [] : [[name, Date.parse(endsAt) / 1000]],
        ),
  ),
  figureBy("state", "core_rollouts", "rollouts that have not ended", async () => {
    const counts = await countOpenRollouts(core.reports);
    const open = rolloutStates.filter((state) => !endedStates.includes(state));
    return open.map((state) => [state, counts.get(state) ?? 0]);
  }),
  figureOf("core_retention_paused", "1 while a clock's jump pauses retention", async () =>
    (await findRetentionPause(core.reports)) === null ? 0 : 1,
  ),
  ...hostFiguresOf({ ...core, db: core.reports }),
  ...exportFiguresOf(core),
  ...watchFiguresOf(core),
];

/** Returns the numbers of hosts as the pages show them. */
const hostFiguresOf = (core: FiguredCore): Figure[] => [
  figureBy("state", "core_hosts", "hosts by state, as on `/fleet`", async () => {
    const { byState } = await summarizeFleet(
      { db: core.db, rules: await readFleetRules(core) },
      {},
    );
    return fleetStates.map((state) => [state, byState.get(state) ?? 0]);
  }),
  figureOf("core_waiting_hosts", "hosts whose records wait", async () => {
    const filter = parseFilter(waitingHosts, core.clock.now());
    return countHosts({ db: core.db, rules: await readFleetRules(core) }, [filter]);
  }),
  figureBy(
    "state",
    "core_completeness_states",
    "hours of hosts in the last day, as on `/data/completeness`",
    async () => {
      const toMs = core.clock.now();
      const hours = await findHourCounts(core.db, { fromMs: toMs - dayMs, toMs });
      const hostsIn = (state: HourState) =>
        hours.reduce((sum, { hosts }) => sum + (hosts.get(state) ?? 0), 0);
      return hourStates.map((state) => [state, hostsIn(state)]);
    },
  ),
  figureBy(
    "status",
    "core_inventory_hosts",
    "hosts by status of the inventory, if there is one",
    async () => {
      const counts = await countAgainstFleet(core);
      return counts === null ? [] : inventoryStatuses.map((status) => [status, counts[status]]);
    },
  ),
  figureBy(
    "budget",
    "core_held_hosts",
    "hosts that each budget holds, as `budget:held`",
    async () => (await browseBudgets(core)).map(({ name, heldHosts }) => [name, heldHosts]),
  ),
];

/** Watches and their messages (docs/watches.md). */
const watchFiguresOf = ({ reports, clock }: FiguredCore): Figure[] => {
  const readWaiting = singleFlight(() => findWaitingMessages(reports));
  const secondsSince = (at: Date) => Math.max(0, (clock.now() - at.getTime()) / 1000);
  return [
    figureBy("state", "core_watches", "watches, by state", async () => {
      const counts = await countWatches(reports);
      return watchStates.map((state) => [state, counts.get(state) ?? 0]);
    }),
    figureOf(
      "core_watch_evaluation_age_seconds",
      "since when a watch was not evaluated",
      async () => {
        const at = await findOldestEvaluation(reports);
        return at && secondsSince(at);
      },
    ),
    figureBy(
      "receiver",
      "core_watch_messages_waiting",
      "messages of watches that a receiver does not have yet",
      async () => (await readWaiting()).map(({ receiver, messages }) => [receiver, messages]),
    ),
    figureBy(
      "receiver",
      "core_watch_message_age_seconds",
      "age of the oldest message that a receiver does not have yet",
      async () =>
        (await readWaiting()).map(({ receiver, oldestAt }) => [receiver, secondsSince(oldestAt)]),
    ),
  ];
};

/** Returns how far exports are behind (docs/export.md); without samples if nothing is exported. Reads once for each scrape. */
const exportFiguresOf = ({ reports }: FiguredCore): Figure[] => {
  const lags = singleFlight(() => findExportLags(reports));
  const figure = (name: string, help: string, read: (lag: ExportLag) => number) =>
    figureBy("export", `core_export_${name}`, help, async () =>
      (await lags()).map((lag) => [lag.name, read(lag)]),
    );
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

type LabelledValues = readonly (readonly [label: string, value: number])[];

/** Creates a figure with a sample for each value of one label. */
const figureBy = (
  label: string,
  name: Figure["name"],
  help: string,
  read: () => LabelledValues | Promise<LabelledValues>,
): Figure => ({
  name,
  help,
  labels: [label],
  read: async () => (await read()).map(([of, value]) => ({ labels: { [label]: of }, value })),
});

/** Creates a figure without labels; it has no sample while it is null. */
const figureOf = (
  name: Figure["name"],
  help: string,
  read: () => Promise<number | null>,
): Figure => ({
  name,
  help,
  labels: [],
  read: async () => {
    const value = await read();
    return value === null ? [] : [{ labels: {}, value }];
  },
});

const readChecks =
  (tools: Pick<Core, "clock" | "log">) =>
  async ([endpoint, checks]: [string, readonly Check[]]): Promise<Sample[]> => {
    const report = await runChecks(checks, tools);
    return report.checks
      .filter(({ status }) => status !== "disabled")
      .map(({ name, status }) => ({
        labels: { endpoint, check: name },
        value: status === "not_ready" ? 0 : 1,
      }));
  };
