import { type ReportSystemResponse, reportSystem } from "../../client/index.ts";
import type { Action } from "../terminal/command.ts";
import { connect } from "../terminal/connect.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { columnsOf } from "../terminal/list-rows.ts";
import { type Column, printRows } from "../terminal/output.ts";

type Part = ReportSystemResponse["parts"][number];

const columns: readonly Column<Part>[] = [
  ...columnsOf<Part>("area", "of"),
  { title: "part", value: ({ name }) => name },
  ...columnsOf<Part>("state", "since", "detail"),
];

/** `svc-admin system`: the state of core's parts, those that need attention first. Ends with 1 if one is not ready. */
export const systemAction: Action<object> = async (terminal, options) => {
  const client = connect(terminal, options);
  const { data } = await reportSystem<true>({ client });
  await printRows(terminal, options, columns, data.parts);
  return data.state === "not_ready" ? exitCodes.refused : undefined;
};
