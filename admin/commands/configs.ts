import {
  getCollectorConfig,
  type ListCollectorConfigsResponse,
  listCollectorConfigs,
  publishCollectorConfig,
} from "../../client/index.ts";
import { withoutUndefined } from "../../kit/without-undefined.ts";
import type { Action } from "../terminal/command.ts";
import { connect } from "../terminal/connect.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { columnsOf, printList } from "../terminal/list-rows.ts";
import { printAnswer, printRecord, printText } from "../terminal/output.ts";
import { readInput } from "../terminal/token-file.ts";
import { resolveId } from "./names.ts";

type ConfigRow = ListCollectorConfigsResponse["items"][number];

/** `svc-admin configs list`. */
export const listConfigsAction: Action<object> = async (terminal, options) => {
  const columns = columnsOf<ConfigRow>("id", "name", "config_hash", "size_bytes", "created_at");
  await printList(terminal, options, columns, listCollectorConfigs, {
    client: connect(terminal, options),
  });
};

/** `svc-admin configs show`: the YAML, byte for byte unless to a terminal; with another `-o` the whole record. */
export const showConfigAction: Action<object> = async (terminal, options, id = "") => {
  const client = connect(terminal, options);
  const { data } = await getCollectorConfig<true>({
    client,
    path: { id: await resolveId(client, "config", id) },
  });
  if (options.format === "table") printText(terminal, data.yaml);
  else await printRecord(terminal, options, data);
};

/** `svc-admin configs diff`: the lines of the first that the second lacks, and the reverse. Exits with 1 if they differ. */
export const diffConfigsAction: Action<object> = async (
  terminal,
  options,
  one = "",
  other = "",
) => {
  const client = connect(terminal, options);
  const [before, after] = await Promise.all(
    [one, other].map(async (name) => {
      const { data } = await getCollectorConfig<true>({
        client,
        path: { id: await resolveId(client, "config", name) },
      });
      return data.yaml;
    }),
  );
  const { createTwoFilesPatch } = await import("diff");
  if (before === after) return exitCodes.ok;
  printText(terminal, createTwoFilesPatch(one, other, before ?? "", after ?? ""));
  return exitCodes.refused;
};

/** `svc-admin configs publish`: checks the file on core, and stores it unless `--dry-run`. */
export const publishConfigAction: Action<{ name?: string; dryRun?: boolean }> = async (
  terminal,
  options,
  file = "",
) => {
  await printAnswer(
    terminal,
    options,
    publishCollectorConfig<true>({
      client: connect(terminal, options),
      body: withoutUndefined({ yaml: readInput(file), name: options.name }),
      query: options.dryRun === true ? { dry_run: "true" } : {},
    }),
  );
};
