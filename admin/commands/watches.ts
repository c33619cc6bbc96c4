import {
  changeWatch,
  createWatch,
  deleteWatch,
  type GetWatchResponse,
  getWatch,
  type ListWatchesResponse,
  listWatches,
  silenceWatch,
  testWatch,
} from "../../client/index.ts";
import { withoutUndefined } from "../../kit/without-undefined.ts";
import { writeDuration } from "../../proto/fleet-health/query-language/duration.ts";
import type { WatchState } from "../../proto/watch/vocabulary.ts";
import type { Action } from "../terminal/command.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { columnsOf, printList } from "../terminal/list-rows.ts";
import { type Column, printAnswer, printRecord, printRows } from "../terminal/output.ts";
import { resolveId } from "./names.ts";

type WatchRow = ListWatchesResponse["items"][number];

const columns: readonly Column<WatchRow>[] = [
  ...columnsOf<WatchRow>("id", "name", "state", "count"),
  {
    title: "threshold",
    value: ({ more_than, for_seconds }) => `> ${more_than} for ${writeDuration(for_seconds)}`,
  },
  ...columnsOf<WatchRow>("filter", "since"),
  { title: "silenced until", value: ({ silence }) => silence?.until },
  ...columnsOf<WatchRow>("receivers", "waiting_messages", "fault"),
];

/** `svc-admin watches list`. */
export const listWatchesAction: Action<{ state?: WatchState }> = async (
  terminal,
  { state, ...options },
) => {
  const client = connect(terminal, options);
  await printList(terminal, options, columns, listWatches, {
    client,
    query: withoutUndefined({ state }),
  });
};

/** `svc-admin watches show`. */
export const showWatchAction: Action<object> = async (terminal, options, name = "") => {
  const client = connect(terminal, options);
  const { data } = await getWatch<true>({
    client,
    path: { id: await resolveId(client, "watch", name) },
  });
  if (options.format !== "table") return printRecord(terminal, options, data);
  const { history, common_factor: factor, ...record } = data;
  const inCommon =
    factor &&
    `${factor.kind} ${factor.value}: ${factor.selected}, and ${factor.others} other hosts`;
  await printRecord(terminal, options, { ...record, common_factor: inCommon });
  terminal.out.write("\n");
  const events = columnsOf<GetWatchResponse["history"][number]>(
    "at",
    "kind",
    "count",
    "receiver",
    "detail",
  );
  await printRows(terminal, options, events, history);
};

interface Definition {
  moreThan?: number;
  for?: number;
  receiver?: string[];
}

/** `svc-admin watches create`. */
export const createWatchAction: Action<Definition> = async (
  terminal,
  options,
  name = "",
  ...words
) => {
  const { moreThan, for: seconds, receiver } = options;
  const filter = words.join(" ");
  const body = withoutUndefined({
    name,
    filter,
    more_than: moreThan,
    for_seconds: seconds,
    receivers: receiver,
  });
  await printAnswer(
    terminal,
    options,
    createWatch<true>({ client: connect(terminal, options), body }),
  );
};

/** `svc-admin watches update`: changes the watch as it is read, so that no other change is undone. */
export const updateWatchAction: Action<
  Definition & { name?: string; query?: string; receivers: boolean }
> = async (terminal, options, given = "") => {
  const client = connect(terminal, options);
  const path = { id: await resolveId(client, "watch", given) };
  const { data: before } = await getWatch<true>({ client, path });
  const { name, filter, more_than, for_seconds, receivers, revision } = before;
  const body = {
    name: options.name ?? name,
    filter: options.query ?? filter,
    more_than: options.moreThan ?? more_than,
    for_seconds: options.for ?? for_seconds,
    receivers: options.receivers ? (options.receiver ?? receivers) : [],
    revision,
  };
  await printAnswer(terminal, options, changeWatch<true>({ client, path, body }));
};

/** `svc-admin watches delete`. */
export const deleteWatchAction: Action<object> = async (terminal, options, name = "") => {
  const client = connect(terminal, options);
  const id = await resolveId(client, "watch", name);
  await confirm(terminal, options, `Delete the watch ${name} and its history`);
  await deleteWatch<true>({ client, path: { id } });
};

/** `svc-admin watches silence`. */
export const silenceWatchAction: Action<{ for: number; reason?: string }> = async (
  terminal,
  options,
  name = "",
) => {
  const client = connect(terminal, options);
  const path = { id: await resolveId(client, "watch", name) };
  const { for: seconds, reason = null } = options;
  await printAnswer(
    terminal,
    options,
    silenceWatch<true>({ client, path, body: { seconds, reason } }),
  );
};

/** `svc-admin watches test`. */
export const testWatchAction: Action<object> = async (terminal, options, name = "") => {
  const client = connect(terminal, options);
  const id = await resolveId(client, "watch", name);
  const { data } = await testWatch<true>({ client, path: { id } });
  terminal.err.write(
    `A test is on its way: svc-admin watches show ${id} shows what becomes of it\n`,
  );
  await printRecord(terminal, options, data);
};
