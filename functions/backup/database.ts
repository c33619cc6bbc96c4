import { basename } from "node:path";
import type { Client } from "pg";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import type { AuditAction } from "../../proto/audit-actions.ts";
import type { CoreConfig } from "../config/core-config.ts";
import { recordAudit } from "../domain/audit/audit-log.ts";
import { createCoreServers } from "../node/database/database-servers.ts";
import { withDatabaseFaults } from "../node/database/prepare-database.ts";
import { connectDatabase } from "../store/database/database.ts";
import { setForSession } from "../store/database/session-settings.ts";
import { destroyClient, openCopyClient } from "../store/ingest/copy-transaction.ts";

/** Runs on a connection of its own, without a deadline: it may read or write every row. */
export const withClient = async <Result>(
  config: CoreConfig,
  run: (client: Client) => Promise<Result>,
): Promise<Result> => {
  const { sessions } = createCoreServers(config);
  return withDatabaseFaults(sessions.variable, async () => {
    const client = await openCopyClient(await sessions.servers.locate(), setForSession(0));
    try {
      return await run(client);
    } finally {
      destroyClient(client);
    }
  });
};

/** Records that somebody on this machine wrote or restored a backup. */
export const auditBackup = async (
  config: CoreConfig,
  action: AuditAction,
  file: string,
  details: Record<string, unknown>,
): Promise<void> => {
  const { db, close } = connectDatabase({ ...createCoreServers(config).sessions, connectionsMax: 1 });
  const display = `svc-server (${process.env.USER ?? "unknown user"})`;
  try {
    await db.transaction((tx) =>
      recordAudit(
        tx,
        { clock: systemClock, entropy: systemEntropy },
        {
          actor: { type: "system", id: "svc-server", display },
          ...{ action, target: { type: "backup", id: basename(file) }, outcome: "success", details },
        },
      ),
    );
  } finally {
    await close();
  }
};
