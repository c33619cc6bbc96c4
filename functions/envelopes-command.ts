import { timeAt } from "#proto/telemetry/time-at.ts";
import { type MigratedCore, operatorName, withMigratedCore } from "./command-core.ts";
import type { CoreConfig } from "./config/core-config.ts";
import { copyTelemetry, type TelemetryCopy } from "./domain/telemetry/copy-telemetry.ts";
import {
  printResult,
  printUsage,
  readCommandLine,
  switchOption,
  textOption,
} from "./node/command-line.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { type DamagedBlock, describeDamage } from "./store/ingest/stored-envelope.ts";
import { dropTelemetryTable, TableRefused } from "./store/ingest/telemetry-table.ts";

const envelopesUsage =
  "svc-server envelopes --from TIME [--to TIME] [--host HOST] --table NAME, or --drop --table NAME; a TIME is as 2026-11-22T10:00:00Z, or as 2h before now\n";
/** Rejects the prefixes of core's own tables, which future partitions use. */
const tablePattern = /^(?!ingest_|pg_)[a-z_][a-z0-9_]{0,62}$/;

/**
 * Copies telemetry into a table and prints the number of envelopes, or drops such a table. Returns 1 if the table is refused or a block
 * damaged, and 2 for wrong arguments.
 */
export const envelopesCommand = async (
  config: CoreConfig,
  args: readonly string[],
): Promise<number> => {
  const request = parseEnvelopesArgs(args);
  if (request === null) return printUsage(envelopesUsage);
  try {
    return await withMigratedCore(config, (core) =>
      "drop" in request ? dropTable(core, request.table) : copyToTable(core, request),
    );
  } catch (error) {
    if (!(error instanceof TableRefused)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
};

const dropTable = async ({ sql }: MigratedCore, table: string) => {
  await dropTelemetryTable(sql, table);
  printResult({ dropped: table });
  return 0;
};

const copyToTable = async (core: MigratedCore, request: CopyRequest) => {
  let damaged = 0;
  const onDamaged = (block: DamagedBlock) => {
    damaged++;
    process.stderr.write(`a stored block is damaged: ${describeDamage(block)}\n`);
  };
  const copy = { ...request, onDamaged };
  const envelopes = await copyTelemetry({ ...core, codec: zstdCodec }, copy, operatorName());
  printResult({ table: request.table, envelopes, damaged_blocks: damaged });
  return damaged > 0 ? 1 : 0;
};

type CopyRequest = Omit<TelemetryCopy, "onDamaged">;
type DropRequest = { table: string; drop: true };

const options = {
  from: textOption,
  to: textOption,
  host: textOption,
  table: textOption,
  drop: switchOption,
};

const parseEnvelopesArgs = (args: readonly string[]): CopyRequest | DropRequest | null => {
  const line = readCommandLine(args, options, { takesArgument: false });
  if (line === null) return null;
  const { from, to, host, table = "", drop } = line.values;
  if (!tablePattern.test(table)) return null;
  if (drop)
    return from === undefined && to === undefined && host === undefined ? { table, drop } : null;
  const first = timeAt(from ?? "");
  const last = timeAt(to ?? "0s");
  return first && last ? { table, host, from: first, to: last } : null;
};
