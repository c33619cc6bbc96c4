import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { hourMs, systemClock } from "#kit/clock.ts";
import { timeAt } from "#proto/telemetry/time-at.ts";
import { blockFileName } from "./domain/completeness/block-file.ts";
import { exportStatement } from "./domain/completeness/export-statement.ts";
import { printUsage, readCommandLine, switchOption, textOption } from "./node/command-line.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { Problem } from "./problems.ts";
import type { RangeBlock } from "./store/completeness/range-blocks.ts";
import type { Database } from "./store/database/database.ts";
import { blockEncodings } from "./store/ingest/stored-envelope.ts";

const usage = `svc-server export-completeness HOUR [--host HOST] [--accounts] [--since SIZE] [--blocks DIR] > FILE

  Writes the signed statement of an hour to standard output, for svc-server verify-completeness (docs/completeness-proof.md).
  HOUR          as 2026-11-25T10:00:00Z, or as 3h before now
  --host HOST   only this host's lines, with their proofs and accounts; without it, the lines of all hosts
  --accounts    with the accounts of all hosts
  --since SIZE  with the proof that the log continues what it was at this size
  --blocks DIR  with accounts, and the blocks of telemetry that they state as files in DIR
`;

/** Writes the file of a statement. Returns 1 if the hour has none, or its lines were dropped. */
export const exportCompleteness = async (
  db: Database,
  args: readonly string[],
): Promise<number> => {
  const order = readOrder(args);
  if (order === null) return printUsage(usage);
  const { blocks, ...statement } = order;
  if (blocks !== undefined) await mkdir(blocks, { recursive: true, mode: 0o700 });
  const onBlock = blocks === undefined ? undefined : blockWriter(blocks);
  const parts = exportStatement({ db, codec: zstdCodec }, { ...statement, onBlock });
  try {
    await pipeline(Readable.from(parts), process.stdout, { end: false });
    return 0;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    process.stderr.write(
      `there is no statement of the hour ${statement.hour.toISOString()}: one is written 15 minutes after its hour, and kept for SVC_ACCOUNT_RETENTION_DAYS\n`,
    );
    return 1;
  }
};

/** Creates the function that writes blocks to files of a directory. */
const blockWriter =
  (directory: string) =>
  async (queueId: Uint8Array, block: RangeBlock): Promise<void> => {
    const name = blockFileName(queueId, block, block.encoding === blockEncodings.zstd);
    await writeFile(join(directory, name), block.data, { mode: 0o600 });
  };

const options = {
  host: textOption,
  since: textOption,
  blocks: textOption,
  accounts: switchOption,
};

const readOrder = (args: readonly string[]) => {
  const line = readCommandLine(args, options, { takesArgument: true });
  const at = line && timeAt(line.argument)?.(systemClock.now());
  if (line === null || at == null) return null;
  const { host, since, blocks, accounts } = line.values;
  if (since !== undefined && !/^\d{1,15}$/.test(since)) return null;
  return {
    hour: new Date(Math.floor(at / hourMs) * hourMs),
    host,
    blocks,
    since: since === undefined ? undefined : Number(since),
    withAccounts: accounts || host !== undefined || blocks !== undefined,
  };
};
