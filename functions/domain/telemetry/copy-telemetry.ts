import type { Core } from "#functions/core.ts";
import { findIdentity } from "#functions/store/certificate/identities.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { readDatabaseTime } from "#functions/store/database/server-settings.ts";
import {
  createTelemetryTable,
  type TelemetryTable,
} from "#functions/store/ingest/telemetry-table.ts";
import { isUuid } from "#proto/values.ts";
import { recordAudit } from "../audit/audit-log.ts";
import { exportBegun } from "../audit/audited-export.ts";

type Needs = Pick<Core, "db" | "clock" | "entropy" | "codec" | "objects"> & { sql: SqlClient };

/** The telemetry to copy, by times of the database's clock. */
export interface TelemetryCopy extends Pick<TelemetryTable, "table" | "onDamaged"> {
  from: (now: number) => number;
  to: (now: number) => number;
  /** An identity, or its id. */
  host?: string | undefined;
}

/**
 * Copies telemetry into a new table for `operator`, audited as `telemetry.copy` before it begins and at its end; returns the number of
 * envelopes. Throws `TableRefused`.
 */
export const copyTelemetry = async (
  core: Needs,
  copy: TelemetryCopy,
  operator: string,
): Promise<number> => {
  const { table, host, onDamaged } = copy;
  const now = await readDatabaseTime(core.db);
  const from = new Date(copy.from(now));
  const to = new Date(copy.to(now));
  const isId = host !== undefined && isUuid(host);
  const hostId = isId ? (await findIdentity(core.db, host))?.identity : host;
  const record = (
    outcome: "success" | "failure",
    envelopes?: number,
    reason: string | null = null,
  ) =>
    core.db.transaction((tx) =>
      recordAudit(tx, core, {
        actor: { type: "system", id: "svc-server", display: `svc-server envelopes (${operator})` },
        action: "telemetry.copy",
        target: { type: "table", id: table },
        outcome,
        reason,
        details: {
          from: from.toISOString(),
          to: to.toISOString(),
          host: hostId ?? host ?? null,
          envelopes,
        },
      }),
    );
  await record("success", undefined, exportBegun);
  const copied = await createTelemetryTable(
    core.sql,
    { table, from, to, hostId: hostId ?? host, onDamaged },
    core,
  ).catch(async (cause: unknown) => {
    // Why the copy failed says more than why the audit log did.
    await record("failure").catch(() => undefined);
    throw cause;
  });
  await record("success", copied);
  return copied;
};
