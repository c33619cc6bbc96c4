import { type ReportSystemResponse, reportSystem } from "../../client/index.ts";
import type { Action } from "../terminal/command.ts";
import { connect } from "../terminal/connect.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { type Column, printRows } from "../terminal/output.ts";

type Part = ReportSystemResponse["parts"][number];

const columns: readonly Column<Part>[] = [
  { title: "area", value: ({ area }) => area },
  { title: "of", value: ({ of }) => of },
  { title: "part", value: ({ name }) => name },
  { title: "state", value: ({ state }) => state },
  { title: "since", value: ({ since }) => since },
  { title: "detail", value: ({ detail }) => detail },
];

/** `svc-admin system`: the state of core's parts, those that need attention first. Ends with 1 if one is not ready. */
export const systemAction: Action<object> = async (terminal, options) => {
  const client = connect(terminal, options);
  const { data } = await reportSystem<true>({ client });
  await printRows(terminal, { format: options.format, columns, rows: data.parts });
  return data.state === "not_ready" ? exitCodes.refused : undefined;
};
