import { type PutInventoryData, type PutInventoryResponse, putInventory } from "#client/index.ts";
import { withoutUndefined } from "#kit/without-undefined.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { printRecord, printRows } from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { readInput } from "../terminal/token-file.ts";
import type { Action, GlobalOptions } from "./command.ts";

interface PutOptions {
  allowEmpty?: boolean;
  ifMatch?: string;
}

type Query = NonNullable<PutInventoryData["query"]>;

/** `svc-admin inventory put`: replaces the inventory by a file; asks before it expects fewer hosts. */
export const putInventoryAction: Action<PutOptions> = async (
  terminal,
  { allowEmpty = false, ifMatch, ...options },
  file = "",
) => {
  const text = readInput(file);
  const query: Query = allowEmpty ? { allow_empty: "true" } : {};
  const plan = await send(terminal, options, {
    text,
    ifMatch,
    query: { ...query, dry_run: "true" },
  });
  if (plan.removed > 0)
    await confirm(
      terminal,
      options,
      `${plan.removed} of the hosts that are expected now are not in the file: ${countsOf(plan)}.`,
    );
  const { changes, ...record } = await send(terminal, options, { text, ifMatch, query });
  await printRecord(terminal, options, record);
};

/** `svc-admin inventory diff`: what a file would change. Exits with 1 if it differs from the inventory. */
export const diffInventoryAction: Action<{ allowEmpty?: boolean }> = async (
  terminal,
  { allowEmpty = false, ...options },
  file = "",
) => {
  const query: Query = { dry_run: "true", ...(allowEmpty ? { allow_empty: "true" as const } : {}) };
  const change = await send(terminal, options, {
    text: readInput(file),
    ifMatch: undefined,
    query,
  });
  const rows = change.changes;
  await printRows(terminal, options, ["change", "name"], rows);
  const total = change.added + change.changed + change.removed;
  if (total > rows.length)
    terminal.err.write(`The first ${rows.length} of ${total}: ${countsOf(change)}\n`);
  return total > 0 ? exitCodes.refused : undefined;
};

const countsOf = ({ added, changed, removed }: PutInventoryResponse) =>
  `${added} added, ${changed} changed, ${removed} removed`;

/** Sends a file as it is: core parses it, and reports the lines of faults. */
const send = async (
  terminal: Terminal,
  options: GlobalOptions,
  { text, ifMatch, query }: { text: string; ifMatch: string | undefined; query: Query },
): Promise<PutInventoryResponse> => {
  const type = text.trimStart().startsWith("{") ? "application/json" : "text/csv";
  const { data } = await putInventory<true>({
    client: connect(terminal, options),
    query,
    body: text as unknown as PutInventoryData["body"],
    bodySerializer: null,
    headers: withoutUndefined({ "Content-Type": type, "If-Match": ifMatch }),
  });
  return data;
};
