import type { FleetClient } from "#client/connect.ts";
import {
  assignCollectorConfig,
  getCollectorConfig,
  items,
  type RollBackCollectorConfigsData,
  reportFleetHealth,
  rollBackCollectorConfigs,
} from "#client/index.ts";
import { withoutUndefined } from "#kit/without-undefined.ts";
import { isUuid } from "#proto/values.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { type AdminExitCode, exitCodes, refusalError } from "../terminal/exit-codes.ts";
import { firstNames, printRows } from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action } from "./command.ts";
import { checkSelection, fleetQueryAtCore } from "./fleet.ts";
import { resolveId } from "./names.ts";

/** A host that a query found. */
interface Host {
  id: string;
  identity: string;
}

/** The options that select hosts, besides the query. */
interface Selection {
  all?: boolean;
}

/** The most hosts of one request to core. */
const hostsAtOnceMax = 1000;

/** `svc-admin configs assign`: to every host that the query finds, after naming how many. Exits with 5 if some were refused. */
export const assignConfigAction: Action<Selection> = async (
  terminal,
  options,
  name = "",
  ...words
) => {
  const select = selector(terminal, options, words);
  const client = connect(terminal, options);
  const id = await resolveId(client, "config", name);
  const { data: config } = await getCollectorConfig<true>({ client, path: { id } });
  const hosts = await select(client);
  await confirm(
    terminal,
    options,
    `Config ${config?.config_hash.slice(0, 12)} for ${describeHosts(hosts)}.`,
  );
  const rows = await inBatches(terminal, hosts, async (batch) => {
    const body = { identity_ids: batch.map((each) => each.id) };
    const { data } = await assignCollectorConfig<true>({ client, path: { id }, body });
    return batch.map(({ identity }, index) => ({
      identity,
      outcome: data.results[index]?.outcome ?? "unknown",
    }));
  });
  await printRows(terminal, options, ["identity", "outcome"], rows);
  return exitCodeOf(rows, "assigned");
};

interface RollbackOptions extends Selection {
  to: "last-known-good" | "previous";
  reason?: string;
}

/**
 * `svc-admin configs rollback`: every host that the query finds gets the config that it had before, or its last known good one, after
 * naming the configs and how many hosts get each. Exits with 5 if some were refused.
 */
export const rollBackConfigAction: Action<RollbackOptions> = async (
  terminal,
  options,
  ...words
) => {
  const select = selector(terminal, options, words);
  const client = connect(terminal, options);
  const hosts = await select(client);
  const to = options.to === "previous" ? ("previous" as const) : ("last_known_good" as const);
  const body = withoutUndefined({ to, reason_code: options.reason });
  const rollBack = async (
    batch: readonly Host[],
    query: RollBackCollectorConfigsData["query"] = {},
  ) => {
    const { data } = await rollBackCollectorConfigs<true>({
      client,
      query,
      body: { ...body, identity_ids: batch.map(({ id }) => id) },
    });
    return batch.map(({ identity }, index) => {
      const { outcome = "not_found", config = null } = data.results[index] ?? {};
      return { identity, outcome, config: config?.id ?? null, hash: config?.config_hash ?? null };
    });
  };
  const planned = await inBatches(terminal, hosts, (batch) => rollBack(batch, { dry_run: "true" }));
  const changed = planned.filter(({ outcome }) => outcome === "rolled_back");
  const columns = ["identity", "outcome", "config", "hash"] as const;
  if (changed.length === 0) {
    await printRows(terminal, options, columns, planned);
    throw refusalError("no host has a config to roll back to: nothing was changed");
  }
  await confirm(terminal, options, `${describeHosts(hosts)}.\n${describePlan(planned)}`);
  const rows = await inBatches(terminal, hosts, rollBack);
  await printRows(terminal, options, columns, rows);
  return exitCodeOf(rows, "rolled_back");
};

const outcomeTexts: Readonly<Record<string, string>> = {
  unchanged: "have it already",
  revoked: "are revoked",
  not_found: "are gone",
  no_last_known_good: "have reported no last known good config",
  last_known_good_not_stored: "have a last known good config that was never published",
  no_previous_config: "had no config before",
};

const describePlan = (
  planned: readonly { outcome: string; config: string | null; hash: string | null }[],
) => {
  const groups = Map.groupBy(planned, ({ outcome, config, hash }) =>
    outcome === "rolled_back"
      ? `get config ${hash?.slice(0, 12)} (${config})`
      : (outcomeTexts[outcome] ?? outcome),
  );
  return [...groups].map(([text, hosts]) => `  ${hosts.length} ${text}`).join("\n");
};

/**
 * Returns a function that reads the hosts of a query, or the host of an id. Throws for an invalid query. The function throws when no host
 * matches, so that a mistyped query changes nothing.
 */
const selector = (
  terminal: Terminal,
  options: Selection,
  words: readonly string[],
): ((client: FleetClient) => Promise<Host[]>) => {
  const [only = ""] = words;
  if (words.length === 1 && isUuid(only.toLowerCase()) && options.all !== true)
    return async () => [{ id: only, identity: only }];
  checkSelection(terminal, words, options);
  return async (client) => {
    const query = { ...(await fleetQueryAtCore(terminal, client, words)), limit: hostsAtOnceMax };
    const rows = await Array.fromAsync(items(reportFleetHealth, { client, query }));
    if (rows.length === 0) throw refusalError("no host matches: nothing was changed");
    return rows.map(({ identity_id: id, identity }) => ({ id, identity }));
  };
};

const describeHosts = (hosts: readonly Host[]): string =>
  `${hosts.length} ${hosts.length === 1 ? "host" : "hosts"}: ${firstNames(hosts.map(({ identity }) => identity))}`;

const inBatches = async <Row>(
  { err }: Terminal,
  hosts: readonly Host[],
  send: (batch: readonly Host[]) => Promise<Row[]>,
): Promise<Row[]> => {
  const rows: Row[] = [];
  for (let from = 0; from < hosts.length; from += hostsAtOnceMax) {
    rows.push(...(await send(hosts.slice(from, from + hostsAtOnceMax))));
    if (hosts.length > hostsAtOnceMax) err.write(`${rows.length} of ${hosts.length} hosts\n`);
  }
  return rows;
};

const exitCodeOf = (results: readonly { outcome: string }[], done: string): AdminExitCode => {
  const refused = results.filter(
    ({ outcome }) => outcome !== done && outcome !== "unchanged",
  ).length;
  if (refused === 0) return exitCodes.ok;
  return refused === results.length ? exitCodes.refused : exitCodes.partial;
};
