import type { CoreConfig } from "./config.ts";
import { verifyAudit } from "./domain/audit/chain.ts";
import { createCoreServers } from "./node/database-servers.ts";
import { createNodeCryptography } from "./node/node-cryptography.ts";
import { withDatabaseFaults } from "./node/prepare-database.ts";
import { connectDatabase } from "./store/database.ts";

/** Recomputes the audit chain and prints the result as one JSON object. */
export const verifyAuditLog = async (config: CoreConfig): Promise<number> => {
  const { sessions } = createCoreServers(config);
  // Without a deadline: one transaction reads the whole log.
  const database = connectDatabase({ ...sessions, connectionsMax: 1, deadlineMs: 0 });
  try {
    const { ok, checked, headSeq, headHash, fault } = await withDatabaseFaults(sessions.variable, () =>
      verifyAudit(database.db, createNodeCryptography()),
    );
    process.stdout.write(`${JSON.stringify({ ok, checked, head_seq: headSeq, head_hash: headHash, fault })}\n`);
    return ok ? 0 : 1;
  } finally {
    await database.close();
  }
};
