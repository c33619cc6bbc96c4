import { parseArgs } from "node:util";
import { timeAt } from "#proto/telemetry/time-at.ts";
import { type MigratedCore, operatorName, printResult, withMigratedCore } from "./command-core.ts";
import type { CoreConfig } from "./config/core-config.ts";
import { copyTelemetry, type TelemetryCopy } from "./domain/telemetry/copy-telemetry.ts";
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
  if (request === null) {
    process.stderr.write(envelopesUsage);
    return 2;
  }
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

const parseEnvelopesArgs = (args: readonly string[]): CopyRequest | DropRequest | null => {
  const text = { type: "string" } as const;
  const options = {
    from: text,
    to: text,
    host: text,
    table: text,
    drop: { type: "boolean" },
  } as const;
  try {
    const { values } = parseArgs({ args: [...args], options });
    const { from, to, host, table = "", drop = false } = values;
    if (!tablePattern.test(table)) return null;
    if (drop)
      return from === undefined && to === undefined && host === undefined ? { table, drop } : null;
    const first = timeAt(from ?? "");
    const last = timeAt(to ?? "0s");
    return first && last ? { table, host, from: first, to: last } : null;
  } catch {
    return null;
  }
};
