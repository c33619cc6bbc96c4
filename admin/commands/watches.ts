import { changeWatch, getWatch } from "#client/index.ts";
import { connect } from "../terminal/connect.ts";
import { type OutputOptions, printAnswer, printRecord, printRows } from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action, AnswerOf } from "./command.ts";
import { resolveId } from "./names.ts";

/** Prints a watch, and below it in a table its history. */
export const printWatch = async (
  terminal: Terminal,
  options: OutputOptions,
  watch: AnswerOf<"getWatch">,
): Promise<void> => {
  if (options.format !== "table") return printRecord(terminal, options, watch);
  const { history, common_factor: factor, ...record } = watch;
  const inCommon =
    factor &&
    `${factor.kind} ${factor.value}: ${factor.selected}, and ${factor.others} other hosts`;
  await printRecord(terminal, options, { ...record, common_factor: inCommon });
  terminal.out.write("\n");
  await printRows(terminal, options, ["at", "kind", "count", "receiver", "detail"], history);
};

/** `svc-admin watches update`: changes the revision that it has read, so that core rejects it after another change. */
export const updateWatchAction: Action<{
  name?: string;
  query?: string;
  moreThan?: number;
  for?: number;
  receiver?: string[];
  receivers: boolean;
}> = async (terminal, options, given = "") => {
  const client = connect(terminal, options);
  const path = { id: await resolveId(client, "watch", given) };
  const { data: before } = await getWatch<true>({ client, path });
  const body = {
    name: options.name ?? before.name,
    filter: options.query ?? before.filter,
    more_than: options.moreThan ?? before.more_than,
    for_seconds: options.for ?? before.for_seconds,
    receivers: options.receivers ? (options.receiver ?? before.receivers) : [],
    revision: before.revision,
  };
  await printAnswer(terminal, options, changeWatch<true>({ client, path, body }));
};
