import { getHostDiag, readHostDiag, requestHostDiag } from "#client/index.ts";
import { connect } from "../terminal/connect.ts";
import { type diagFormats, printAnswer } from "../terminal/output.ts";
import type { Action } from "./command.ts";
import { resolveId } from "./names.ts";

const diagPollMs = 1_000;

/** `svc-admin hosts diag`: waits until the host has sent its diagnostics, or core reports why it has not. */
export const diagHostAction: Action<{ format: (typeof diagFormats)[number] }> = async (
  terminal,
  options,
  name = "",
) => {
  const client = connect(terminal, options);
  const id = await resolveId(client, "host", name);
  let { data: diag } = await requestHostDiag<true>({ client, path: { id } });
  terminal.err.write(`Waiting for the host, until ${diag.answer_by} at most.\n`);
  const path = { id, diag: diag.id };
  while (diag.state === "pending") {
    await terminal.clock.sleep(diagPollMs, terminal.signal);
    diag = (await getHostDiag<true>({ client, path })).data;
  }
  await printAnswer(terminal, options, readHostDiag<true>({ client, path }));
};
