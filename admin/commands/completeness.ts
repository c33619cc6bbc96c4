import {
  type GetHostCompletenessResponse,
  getHostCompleteness,
  type ReportCompletenessResponse,
  readStatement,
  reportCompleteness,
} from "#client/index.ts";
import { withoutUndefined } from "#kit/without-undefined.ts";
import type { HourState } from "#proto/completeness/hour-state.ts";
import { rulesText } from "#proto/completeness/rules-text.ts";
import { connect } from "../terminal/connect.ts";
import { type Column, printRows } from "../terminal/output.ts";
import { type Instant, textOfInstant } from "../terminal/parse-option.ts";
import { printList } from "../terminal/print-list.ts";
import type { Action } from "./command.ts";
import { resolveId } from "./names.ts";

interface CompletenessOptions {
  from?: Instant;
  to?: Instant;
  state?: HourState;
  limit?: number;
}

type HostRow = ReportCompletenessResponse["items"][number];
type HourRow = GetHostCompletenessResponse["hours"][number];
type Shortages = HourRow["shortages"];

const shortagesText = (shortages: Shortages) =>
  shortages
    .map(({ kind, count, reason }) =>
      [kind, count, reason].filter((part) => part != null).join(" "),
    )
    .join(", ");

const hostColumns: readonly Column<HostRow>[] = [
  { host: ({ device_id, host_id }) => device_id ?? host_id },
  "hours",
  {
    "worst hour": ({ worst }) => worst?.from,
    state: ({ worst }) => worst?.state,
    "short of": ({ worst }) => shortagesText(worst?.shortages ?? []),
  },
];

const hourColumns: readonly Column<HourRow>[] = [
  "from as hour",
  {
    state: ({ state }) => state ?? "not decided",
    accepted: ({ figures }) => figures?.accepted,
    stored: ({ figures }) => figures?.stored,
    "short of": ({ shortages }) => shortagesText(shortages),
    rules: ({ figures }) => rulesText(figures?.rules ?? []),
  },
];

interface StatementOptions {
  host?: string;
  accounts?: boolean;
  since?: number;
}

/** `svc-admin completeness statement`: the file of an hour's statement, to standard output. */
export const writeStatementAction: Action<StatementOptions> = async (
  terminal,
  { host, accounts = false, since, ...options },
  hour = "",
) => {
  const client = connect(terminal, options);
  const query = withoutUndefined({
    host,
    accounts: accounts ? ("true" as const) : undefined,
    since,
  });
  const { data } = await readStatement<true>({ client, path: { hour }, query, parseAs: "stream" });
  const decoder = new TextDecoder();
  for await (const bytes of data as unknown as AsyncIterable<Uint8Array>)
    terminal.out.write(decoder.decode(bytes, { stream: true }));
};

/** `svc-admin completeness`: the hours of a host, or the hosts whose hours are not complete. */
export const completenessAction: Action<CompletenessOptions> = async (
  terminal,
  { from, to, state, ...options },
  name,
) => {
  const client = connect(terminal, options);
  const range = withoutUndefined({ from: textOfInstant(from), to: textOfInstant(to) });
  if (name === undefined) {
    const query = { ...range, ...(state && { state: [state] }) };
    await printList(terminal, options, hostColumns, reportCompleteness, { client, query });
    return;
  }
  const id = await resolveId(client, "host", name);
  const { data } = await getHostCompleteness<true>({ client, path: { id }, query: range });
  const rows = state === undefined ? data.hours : data.hours.filter((hour) => hour.state === state);
  await printRows(terminal, options, hourColumns, rows);
};
