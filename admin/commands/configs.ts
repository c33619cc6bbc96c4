import { readFileSync } from "node:fs";
import {
  assignCollectorConfig,
  getCollectorConfig,
  items,
  type ListCollectorConfigsResponse,
  listCollectorConfigs,
  publishCollectorConfig,
  reportFleetHealth,
  rollBackDesiredConfig,
} from "../../client/index.ts";
import type { Action } from "../terminal/command.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { CommandFailure, type ExitCode, exitCodes } from "../terminal/exit-codes.ts";
import { columnsOf, printList } from "../terminal/list-rows.ts";
import { printRecord, printRows } from "../terminal/output.ts";
import { fleetQueryOf } from "./fleet.ts";

type ConfigRow = ListCollectorConfigsResponse["items"][number];

/** Hosts of one request of core. */
const assignedAtOnceMax = 1000;

/** `svc-admin configs list`. */
export const listConfigs: Action<object> = async (terminal, options) => {
  const columns = columnsOf<ConfigRow>("id", "name", "config_hash", "size_bytes", "created_at");
  const request = { client: connect(terminal, options) };
  await printList(terminal, listCollectorConfigs, request, { format: options.output, columns });
  return undefined;
};

/** `svc-admin configs show`: the YAML, byte for byte; with another `-o` the whole record. */
export const showConfig: Action<object> = async (terminal, options, id = "") => {
  const { data } = await getCollectorConfig({ client: connect(terminal, options), path: { id } });
  if (options.output === "table") terminal.out.write(data?.yaml ?? "");
  else await printRecord(terminal, { format: options.output, record: data ?? {} });
  return undefined;
};

/** `svc-admin configs diff`: the lines of the first that the second lacks, and the reverse. Exits with 1 if they differ. */
export const diffConfigs: Action<object> = async (terminal, options, one = "", other = "") => {
  const client = connect(terminal, options);
  const [before, after] = await Promise.all(
    [one, other].map(async (id) => (await getCollectorConfig({ client, path: { id } })).data?.yaml ?? ""),
  );
  const { createTwoFilesPatch } = await import("diff");
  if (before === after) return undefined;
  terminal.out.write(createTwoFilesPatch(one, other, before ?? "", after ?? ""));
  return exitCodes.refused;
};

/** `svc-admin configs publish`: checks the file on core, and stores it unless `--dry-run`. */
export const publishConfig: Action<{ name?: string; dryRun?: boolean }> = async (terminal, options, file = "") => {
  let yaml: string;
  try {
    yaml = readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (cause) {
    throw new CommandFailure(exitCodes.usage, `${file} cannot be read`, { cause });
  }
  const { data } = await publishCollectorConfig({
    client: connect(terminal, options),
    body: { yaml, ...(options.name === undefined ? {} : { name: options.name }) },
    ...(options.dryRun === true ? { query: { dry_run: "true" as const } } : {}),
  });
  await printRecord(terminal, { format: options.output, record: data ?? {} });
  return undefined;
};

/** `svc-admin configs assign`: to every host that the query finds, after naming how many. Exits with 5 if some were refused. */
export const assignConfig: Action<object> = async (terminal, options, id = "", ...words) => {
  const client = connect(terminal, options);
  const { data: config } = await getCollectorConfig({ client, path: { id } });
  const query = fleetQueryOf(words, new Date(terminal.clock.now()));
  const hosts: { id: string; identity: string }[] = [];
  for await (const row of items(reportFleetHealth, { client, query: { ...query, limit: 1000 } }))
    hosts.push({ id: row.identity_id, identity: row.identity });
  if (hosts.length === 0) throw new CommandFailure(exitCodes.refused, "no host matches: nothing was changed");
  const first = hosts.slice(0, 3).map(({ identity }) => identity);
  const others = hosts.length > first.length ? ` and ${hosts.length - first.length} more` : "";
  const what = `Config ${config?.config_hash.slice(0, 12)} for ${hosts.length} hosts: ${first.join(", ")}${others}.`;
  await confirm(terminal, options, what);
  const results: { identity: string; outcome: string }[] = [];
  for (let at = 0; at < hosts.length; at += assignedAtOnceMax) {
    const some = hosts.slice(at, at + assignedAtOnceMax);
    const { data } = await assignCollectorConfig({
      client,
      path: { id },
      body: { identity_ids: some.map((each) => each.id) },
    });
    const outcomes = data?.results ?? [];
    results.push(...some.map(({ identity }, index) => ({ identity, outcome: outcomes[index]?.outcome ?? "unknown" })));
    if (hosts.length > assignedAtOnceMax) terminal.err.write(`${results.length} of ${hosts.length} hosts\n`);
  }
  await printRows(terminal, {
    format: options.output,
    columns: columnsOf<(typeof results)[number]>("identity", "outcome"),
    rows: results,
  });
  return outcomeOf(results);
};

const outcomeOf = (results: readonly { outcome: string }[]): ExitCode => {
  const refused = results.filter(({ outcome }) => outcome !== "assigned" && outcome !== "unchanged").length;
  if (refused === 0) return exitCodes.ok;
  return refused === results.length ? exitCodes.refused : exitCodes.partial;
};

/** `svc-admin configs rollback`: a host gets the config that it reported as its last known good one. */
export const rollBackConfig: Action<{ reason?: string }> = async (terminal, options, id = "") => {
  await confirm(terminal, options, `Host ${id}: it gets its last known good config.`);
  const body = options.reason === undefined ? {} : { reason_code: options.reason };
  const { data } = await rollBackDesiredConfig({ client: connect(terminal, options), path: { id }, body });
  await printRecord(terminal, { format: options.output, record: data ?? {} });
  return undefined;
};
