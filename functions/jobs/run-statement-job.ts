import { uuidv7 } from "../../kit/entropy.ts";
import { runEvery } from "../../kit/run-every.ts";
import { formatNoteKey } from "../../proto/completeness/signed-note.ts";
import type { Core } from "../core.ts";
import { type StatementCore, writeStatement } from "../domain/completeness/write-statement.ts";

const intervalMs = 60_000;

/**
 * Writes the statement of each hour, 15 minutes after its end, until the signal aborts. One at a time after an outage, so that a clock that
 * jumps ahead is noticed (retention-clock.ts) before many hours that have not been are stated.
 */
export const runStatementJob = (core: StatementCore & Pick<Core, "log">, signal: AbortSignal): Promise<void> => {
  const { clock, log, logSigner } = core;
  if (logSigner) log.info({ log_key: formatNoteKey(logSigner.key) }, "statements are signed");
  const owner = uuidv7(core);
  return runEvery({ name: "statement", intervalMs, clock, signal, log }, () => writeStatement(core, owner));
};
